"""Fetch and import against a local HTTP server that cuts off, ignores Range, or lies."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from data.fetch.archive_server import Server, tar_of

from nearsight.core import UserError
from nearsight.data.fetch import download
from nearsight.data.fetch.archive import fetch_dataset
from nearsight.data.sets.catalog import SETS, check_dataset, source_of

FOLDER = "cifar-100-binary"


def test_a_fetched_folder_has_the_archives_files_and_is_official(
    root: Path, server: Server, cifar_files: dict[str, bytes]
) -> None:
    seen: list[tuple[int, int | None]] = []
    folder = fetch_dataset("cifar100", root, lambda done, total: seen.append((done, total)))
    found = {f"{FOLDER}/{path.name}": path.read_bytes() for path in folder.iterdir()}
    assert found.pop(f"{FOLDER}/origin.json")
    assert found == cifar_files
    assert seen[-1] == (len(server.content), len(server.content))
    assert [path.name for path in root.iterdir()] == [FOLDER]
    assert check_dataset("cifar100", root).verdict == "official"


def test_what_is_there_is_not_fetched_again(root: Path, server: Server) -> None:
    assert fetch_dataset("cifar100", root) == fetch_dataset("cifar100", root)
    assert len(server.asked) == 1


def test_cut_offs_are_continued_where_they_happened(root: Path, server: Server) -> None:
    server.cut_after = [3001, 2003, 1]
    fetch_dataset("cifar100", root)
    assert server.asked == [None, "bytes=3001-", "bytes=5004-", "bytes=5005-"]


def test_a_dead_line_keeps_the_part_and_the_next_call_continues(root: Path, server: Server) -> None:
    server.cut_after = [3001, 0, 0, 0, 0]
    with pytest.raises(UserError, match=r"3,001 of 31,070 bytes.*\.tar\.gz\.part"):
        fetch_dataset("cifar100", root)
    part = root / "cifar-100-binary.tar.gz.part"
    assert part.read_bytes() == server.content[:3001]
    assert fetch_dataset("cifar100", root).is_dir()
    assert server.asked[-1] == "bytes=3001-"
    assert not part.exists()


def test_a_server_that_ignores_range_starts_anew(root: Path, server: Server) -> None:
    server.ranges = False
    server.cut_after = [3001]
    assert fetch_dataset("cifar100", root).is_dir()
    assert server.asked == [None, "bytes=3001-"]


def test_a_part_that_is_already_whole_is_taken(root: Path, server: Server) -> None:
    root.mkdir()
    (root / "cifar-100-binary.tar.gz.part").write_bytes(server.content)
    assert fetch_dataset("cifar100", root).is_dir()


def test_a_part_that_is_too_long_is_dropped(root: Path, server: Server) -> None:
    root.mkdir()
    (root / "cifar-100-binary.tar.gz.part").write_bytes(server.content + b"more")
    assert fetch_dataset("cifar100", root).is_dir()
    assert server.asked[-1] is None


def test_a_wrong_checksum_removes_the_part(root: Path, server: Server) -> None:
    server.content = server.content[:-1] + b"?"
    with pytest.raises(UserError, match=r"sha256 [0-9a-f]{64}, but .* [0-9a-f]{64}"):
        fetch_dataset("cifar100", root)
    assert list(root.iterdir()) == []


def test_a_missing_page_says_where_else_to_look(root: Path, server: Server) -> None:
    server.status = 404
    with pytest.raises(UserError, match=r"\b404 Not Found\b.*nearsight data import FILE"):
        fetch_dataset("cifar100", root)
    assert len(server.asked) == 1
    assert list(root.iterdir()) == []


def test_a_server_error_is_tried_again_then_told(root: Path, server: Server) -> None:
    server.status = 503
    with pytest.raises(UserError, match=r"\(503 Service Unavailable\).*nearsight data import FILE"):
        fetch_dataset("cifar100", root)
    assert len(server.asked) == download.MAX_FRUITLESS


def test_no_network_is_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = replace(source_of("cifar100"), url="http://127.0.0.1:9/cifar-100-binary.tar.gz")
    monkeypatch.setitem(SETS, "cifar100", replace(SETS["cifar100"], source=nowhere))
    with pytest.raises(UserError, match=r"127\.0\.0\.1:9/.*nearsight data import FILE"):
        fetch_dataset("cifar100", root)
    assert list(root.iterdir()) == []


def test_two_downloads_to_one_file_are_refused(root: Path, tmp_path: Path, server: Server) -> None:
    refused = []

    def again(*_: object) -> None:
        with pytest.raises(UserError, match=r"\bdownload\b.*/root\b"):
            fetch_dataset("cifar100", root)
        refused.append(True)

    fetch_dataset("cifar100", root, again)
    assert refused


@pytest.mark.parametrize(
    "name", ["../evil.bin", "/evil.bin", f"{FOLDER}/../evil.bin", f"{FOLDER}\\..\\evil", "other/a"]
)
def test_a_member_that_leads_elsewhere_is_refused(
    offer: Callable[[bytes], None], cifar_files: dict[str, bytes], tmp_path: Path, name: str
) -> None:
    offer(tar_of({**cifar_files, name: b"evil"}))
    with pytest.raises(UserError, match=rf"\b(evil|other/a)\b.*{FOLDER}/"):
        fetch_dataset("cifar100", tmp_path / "root")
    assert [path.name for path in (tmp_path / "root").iterdir()] == ["cifar-100-binary.tar.gz"]
    assert not list(tmp_path.rglob("evil*"))


def test_links_in_an_archive_are_left_out(
    offer: Callable[[bytes], None], cifar_files: dict[str, bytes], tmp_path: Path
) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as packed:
        link = tarfile.TarInfo(f"{FOLDER}/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        packed.addfile(link)
        for name, content in cifar_files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            packed.addfile(info, io.BytesIO(content))
    offer(buffer.getvalue())
    folder = fetch_dataset("cifar100", tmp_path / "root")
    assert not (folder / "link").is_symlink()


def test_shapes_needs_no_fetch_and_unknown_names_give_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"\bshapes\b.*cifar10, cifar100, tiny-imagenet"):
        fetch_dataset("shapes", tmp_path)
    with pytest.raises(ValueError, match=r"'cifar1'.*\bcifar10\b"):
        fetch_dataset("cifar1", tmp_path)


def test_an_endless_server_is_left_at_the_size_of_the_file(
    root: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.content += b"x" * 5_000
    with pytest.raises(UserError, match="31,070 bytes"):
        fetch_dataset("cifar100", root)
    assert list(root.glob("*.part")) == []


def test_a_server_that_starts_again_and_again_is_asked_a_limited_number_of_times(
    root: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "PAUSE_SECONDS", 0.0)
    server.ranges = False
    server.cut_after = [100, 110] * 200
    with pytest.raises(UserError, match="110 of 31,070 bytes"):
        fetch_dataset("cifar100", root)
    assert len(server.asked) <= download.MAX_TRIES


def test_an_empty_answer_is_called_a_cut_off(root: Path, server: Server) -> None:
    server.content = b""
    server.status = 204
    with pytest.raises(UserError, match=r"\b204\b|\b0 of 31,070 bytes"):
        fetch_dataset("cifar100", root)
    assert list(root.glob("*.part")) == []
