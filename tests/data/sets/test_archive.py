"""Data sets that a user already has: imported by checksum or by structure, whole or not at all."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from data.sets.archive_server import Server
from made_data import write_cifar, write_tiny_imagenet

from nearsight.data.sets import archive
from nearsight.data.sets.archive import fetch_dataset, import_folder
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
    with pytest.raises(ValueError, match=r"none of the official archives .*cut off"):
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
    with pytest.raises(ValueError, match="already in"):
        import_folder(source, root)


def test_an_official_folder_stays_official_and_a_cut_off_one_is_refused(
    root: Path, tmp_path: Path
) -> None:
    folder = fetch_dataset("cifar100", root)
    import_folder(folder, tmp_path / "second")
    assert check_dataset("cifar100", tmp_path / "second").verdict == "official"
    (folder / "test.bin").write_bytes(b"cut off")
    with pytest.raises(ValueError, match=r"test\.bin has 7 bytes"):
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
    source = replace(source_of("tiny-imagenet"), md5=hashlib.md5(path.read_bytes()).hexdigest())
    monkeypatch.setitem(SETS, "tiny-imagenet", replace(SETS["tiny-imagenet"], source=source))
    import_folder(path, tmp_path / "root")
    assert check_dataset("tiny-imagenet", tmp_path / "root").verdict == "official"


def test_a_folder_of_something_else_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    with pytest.raises(ValueError, match="an image folder needs no import"):
        import_folder(tmp_path / "photos", root)
    with pytest.raises(ValueError, match="there is no file or folder"):
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
