"""Where a result came from: the commit is nearsight's own, or none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from nearsight.runs.origin import commit, hardware


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
    done = subprocess.run(
        ["git", "-C", str(folder), *who, *words], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a committed file."""
    git(tmp_path, "init", "-q")
    (tmp_path / "paper.tex").write_text("My paper.")
    git(tmp_path, "add", "paper.tex")
    git(tmp_path, "commit", "-qm", "my paper")
    return tmp_path


@pytest.mark.parametrize("place", [".venv/lib/site-packages", "vendored", "."])
def test_the_commit_of_a_project_that_nearsight_is_copied_into_is_not_recorded(
    repository: Path, place: str
):
    package = repository / place / "nearsight"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (repository / "pyproject.toml").write_text('[project]\nname = "paper"\n')
    assert commit(package) is None


def test_the_commit_of_its_own_checkout_is_recorded_and_marked_when_it_was_changed(
    repository: Path,
):
    package = repository / "nearsight"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (repository / "pyproject.toml").write_text('[project]\nname = "nearsight"\n')
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "nearsight")
    head = git(repository, "rev-parse", "--short=12", "HEAD")
    assert commit(package) == head
    (package / "__init__.py").write_text("changed")
    assert commit(package) == f"{head}+"


def test_without_a_repository_there_is_no_commit(tmp_path: Path):
    (tmp_path / "nearsight").mkdir()
    assert commit(tmp_path / "nearsight") is None


def test_libraries_loaded_before_torch_are_recorded_by_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    assert "preloaded" not in hardware("cpu")
    monkeypatch.setenv("LD_PRELOAD", "/home/me/libfaster.so:libother.so")
    assert hardware("cpu")["preloaded"] == "libfaster.so libother.so"
