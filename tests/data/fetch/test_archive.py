"""Data sets that a user already has: imported by checksum or by structure, whole or not at all."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from data.fetch.archive_server import Server
from made_data import write_cifar, write_tiny_imagenet

from nearsight.core.errors import UserError
from nearsight.data.fetch import archive
from nearsight.data.fetch.archive import fetch_dataset, import_folder
from nearsight.data.sets.catalog import SETS, check_dataset, source_of

FOLDER = "cifar-100-binary"


def test_an_official_archive_is_imported_by_its_checksum(
    root: Path, server: Server, tmp_path: Path
) -> None:
    (tmp_path / "renamed.bin").write_bytes(server.content)
    assert import_folder(tmp_path / "renamed.bin", root) == root / FOLDER
    assert check_dataset("cifar100", root).verdict == "official"
    assert (tmp_path / "renamed.bin").exists()


def test_another_archive_is_refused(root: Path, server: Server, tmp_path: Path) -> None:
    (tmp_path / "cut.tar.gz").write_bytes(server.content[:-1])
    with pytest.raises(UserError, match=r"cut\.tar\.gz .*cifar-100-binary\.tar\.gz"):
        import_folder(tmp_path / "cut.tar.gz", root)
    assert not root.exists()


@pytest.mark.parametrize("above", [False, True])
def test_an_unpacked_folder_is_imported_by_its_structure(
    root: Path, tmp_path: Path, above: bool
) -> None:
    source = tmp_path / "given" / FOLDER
    write_cifar(source, "cifar100", num_classes=3, num_per_file=7)
    folder = import_folder(source.parent if above else source, root)
    assert folder == root / FOLDER
    assert (folder / "train.bin").read_bytes() == (source / "train.bin").read_bytes()
    assert check_dataset("cifar100", root).verdict == "not the official bytes"
    assert import_folder(source, root) == folder  # there is nothing to do
    (source / "train.bin").write_bytes((source / "test.bin").read_bytes())
    with pytest.raises(UserError, match=r"/cifar-100-binary .*\bcifar100\b"):
        import_folder(source, root)


def test_an_official_folder_stays_official_and_a_cut_off_one_is_refused(
    root: Path, tmp_path: Path
) -> None:
    folder = fetch_dataset("cifar100", root)
    import_folder(folder, tmp_path / "second")
    assert check_dataset("cifar100", tmp_path / "second").verdict == "official"
    (folder / "test.bin").write_bytes(b"cut off")
    with pytest.raises(UserError, match=r"test\.bin has 7 bytes"):
        import_folder(folder, tmp_path / "third")
    assert not (tmp_path / "third").exists()


def test_cifar10_and_tiny_imagenet_are_told_apart(root: Path, tmp_path: Path) -> None:
    write_cifar(tmp_path / "ten", "cifar10", num_classes=3, num_per_file=7)
    write_tiny_imagenet(tmp_path / "tiny")
    assert import_folder(tmp_path / "ten", root).name == "cifar-10-batches-bin"
    assert import_folder(tmp_path / "tiny", root).name == "tiny-imagenet-200"


def test_a_zip_is_unpacked_like_a_tar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tiny_imagenet(tmp_path / "tiny-imagenet-200")
    path = tmp_path / "tiny.zip"
    with zipfile.ZipFile(path, "w") as packed:
        for file in (tmp_path / "tiny-imagenet-200").rglob("*"):
            packed.write(file, file.relative_to(tmp_path))
    source = replace(
        source_of("tiny-imagenet"), sha256=hashlib.sha256(path.read_bytes()).hexdigest()
    )
    monkeypatch.setitem(SETS, "tiny-imagenet", replace(SETS["tiny-imagenet"], source=source))
    import_folder(path, tmp_path / "root")
    assert check_dataset("tiny-imagenet", tmp_path / "root").verdict == "official"


def test_a_folder_of_something_else_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    with pytest.raises(UserError, match=r"/photos .*--data .*/photos"):
        import_folder(tmp_path / "photos", root)
    with pytest.raises(UserError, match=r"/nothing\b"):
        import_folder(tmp_path / "nothing", root)


def test_an_import_that_breaks_off_leaves_nothing(
    root: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "official.tar.gz").write_bytes(server.content)
    monkeypatch.setattr(archive.shutil, "copyfileobj", full)
    with pytest.raises(OSError, match="No space left"):
        import_folder(tmp_path / "official.tar.gz", root)
    assert list(root.iterdir()) == []


def given_tiny_imagenet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool) -> Path:
    """A small Tiny-ImageNet: an unpacked folder, or an archive that counts as the official one."""
    folder = tmp_path / "given" / "tiny-imagenet-200"
    write_tiny_imagenet(folder)
    if not packed:
        return folder
    path = tmp_path / "tiny.zip"
    with zipfile.ZipFile(path, "w") as file:
        for each in sorted(folder.rglob("*")):
            file.write(each, each.relative_to(folder.parent))
    source = replace(
        source_of("tiny-imagenet"), sha256=hashlib.sha256(path.read_bytes()).hexdigest()
    )
    monkeypatch.setitem(SETS, "tiny-imagenet", replace(SETS["tiny-imagenet"], source=source))
    return path


def during_the_import(monkeypatch: pytest.MonkeyPatch, packed: bool, act: Callable) -> None:
    """Call ``act(path)`` once, when five files have been copied."""
    name = "copyfileobj" if packed else "copy2"
    copied, original = [], getattr(shutil, name)

    def copy(source, target, *others, **named):
        result = original(source, target, *others, **named)
        copied.append(Path(getattr(target, "name", target)))
        if len(copied) == 5:
            act(copied[0])
        return result

    if packed:
        monkeypatch.setattr(archive.shutil, "copyfileobj", copy)
    else:
        monkeypatch.setattr(
            archive.shutil.copytree, "__defaults__", (False, None, copy, False, False)
        )


@pytest.mark.parametrize("packed", [False, True])
def test_a_second_import_at_once_is_refused_and_the_first_one_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    given, root = given_tiny_imagenet(tmp_path, monkeypatch, packed), tmp_path / "root"
    refused = []

    def again(_: Path) -> None:
        with pytest.raises(UserError, match=r"\bimport\b.*/root\b"):
            import_folder(given, root)
        refused.append(True)

    during_the_import(monkeypatch, packed, again)
    folder = import_folder(given, root)
    assert refused
    whole = tmp_path / "given" / "tiny-imagenet-200"
    names = {str(x.relative_to(whole)) for x in whole.rglob("*")}
    assert {str(x.relative_to(folder)) for x in folder.rglob("*")} - {"origin.json"} == names
    assert [path.name for path in root.iterdir()] == [folder.name]


@pytest.mark.parametrize("packed", [False, True])
def test_an_import_from_which_files_vanish_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    given, root = given_tiny_imagenet(tmp_path, monkeypatch, packed), tmp_path / "root"
    during_the_import(monkeypatch, packed, Path.unlink)
    with pytest.raises(UserError, match=r"\b15 files\b.*\b14\b.*tiny-imagenet-200"):
        import_folder(given, root)
    assert list(root.iterdir()) == []


def test_what_a_killed_import_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    write_tiny_imagenet(tmp_path / "tiny")
    root = tmp_path / "root"
    for left in (".tiny-imagenet-200.partial", ".tiny-imagenet-200.77.partial"):
        (root / left / "train").mkdir(parents=True)
    import_folder(tmp_path / "tiny", root)
    assert [path.name for path in root.iterdir()] == ["tiny-imagenet-200"]
