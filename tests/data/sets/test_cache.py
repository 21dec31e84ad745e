"""The cache: same bytes, exact statistics; nothing stale, damaged or half-written is read."""

from __future__ import annotations

import hashlib
import logging
import os
import statistics as plain_statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from made_data import write_cifar

from nearsight.data.sets import cache
from nearsight.data.sets.catalog import load_dataset
from nearsight.data.sets.dataset import Dataset, histogram, statistics
from nearsight.protocol.schema import DataSettings

SETTINGS = DataSettings(name="cifar100")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    write_cifar(tmp_path / "data" / "cifar-100-binary", "cifar100", num_classes=7, num_per_file=29)
    return tmp_path / "data"


def decoded_folder(root: Path) -> Path:
    (folder,) = (path for path in (root / ".nearsight-cache").iterdir() if path.is_dir())
    return folder


def test_cached_pixels_and_labels_are_those_of_the_records(root: Path) -> None:
    records = np.frombuffer((root / "cifar-100-binary" / "train.bin").read_bytes(), np.uint8)
    records = records.reshape(29, 3074)
    dataset = load_dataset(SETTINGS, root)
    assert np.array_equal(dataset.train.images, records[:, 2:].reshape(29, 3, 32, 32))
    assert dataset.train.labels.tolist() == [index % 7 for index in range(29)]
    assert dataset.classes == tuple(f"class{number}" for number in range(7))
    assert dataset.train.masks is None


def test_arrays_are_read_only_maps(root: Path) -> None:
    dataset = load_dataset(SETTINGS, root)
    assert isinstance(dataset.train.images, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        dataset.train.images[0] = 0


def test_the_hash_is_that_of_pixels_and_labels(root: Path) -> None:
    dataset = load_dataset(SETTINGS, root)
    text = ""
    for split, part in (("test", dataset.test), ("train", dataset.train)):
        for kind, array in (("images", part.images), ("labels", part.labels)):
            digest = hashlib.sha256(array.tobytes()).hexdigest()
            text += f"{split}.{kind} {list(array.shape)} {digest}\n"
    assert dataset.hash == hashlib.sha256(text.encode()).hexdigest()[:16]


def test_mean_and_std_equal_those_of_a_plain_loop(root: Path) -> None:
    dataset = load_dataset(SETTINGS, root)
    for channel in range(3):
        values = (dataset.train.images[:, channel].ravel() / 255).tolist()
        assert dataset.mean[channel] == pytest.approx(plain_statistics.fmean(values), abs=1e-14)
        assert dataset.std[channel] == pytest.approx(plain_statistics.pstdev(values), abs=1e-14)


def test_statistics_of_a_constant_channel_can_be_divided_by() -> None:
    mean, std = statistics(histogram(np.full((2, 3, 5, 3), 51, np.uint8)))
    assert mean == (0.2, 0.2, 0.2)
    assert std == (1 / 255,) * 3


def same(first: Dataset, second: Dataset) -> bool:
    return first.hash == second.hash and bool((first.train.images == second.train.images).all())


@pytest.mark.parametrize("file", ["train.images", "test.labels", "manifest.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_a_damaged_cache_is_noticed_and_built_again(
    root: Path, file: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = load_dataset(SETTINGS, root)
    path = decoded_folder(root) / file
    content = path.read_bytes()
    path.unlink()
    if damage == "flip":
        middle = content.index(b"0.") + 3 if file == "manifest.json" else len(content) // 2
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    elif damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    with caplog.at_level(logging.INFO, logger="nearsight.data.sets.cache"):
        assert same(load_dataset(SETTINGS, root), before)
    assert "decoding cifar100 once" in caplog.text


def test_a_changed_source_is_decoded_again_and_the_old_copy_removed(root: Path) -> None:
    before = load_dataset(SETTINGS, root)
    path = root / "cifar-100-binary" / "train.bin"
    content = bytearray(path.read_bytes())
    content[100] ^= 255
    path.write_bytes(content)
    os.utime(path, ns=(1, 1))
    after = load_dataset(SETTINGS, root)
    assert after.hash != before.hash
    assert decoded_folder(root).is_dir()  # one folder only


def test_an_unchanged_source_is_not_decoded_twice(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = load_dataset(SETTINGS, root)
    monkeypatch.setattr(cache, "_build", lambda *_: pytest.fail("decoded twice"))
    assert same(load_dataset(SETTINGS, root), before)


def test_what_a_killed_process_left_is_replaced(root: Path) -> None:
    before = load_dataset(SETTINGS, root)
    folder = decoded_folder(root)
    folder.rename(folder.with_name(f"{folder.name}.partial"))
    assert same(load_dataset(SETTINGS, root), before)
    assert decoded_folder(root) == folder


def test_a_full_disk_leaves_nothing_behind(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(cache, "_append", full)
        with pytest.raises(OSError, match="No space left"):
            load_dataset(SETTINGS, root)
    assert not [path for path in (root / ".nearsight-cache").iterdir() if path.is_dir()]
    assert len(load_dataset(SETTINGS, root).train) == 29


def test_a_root_that_cannot_be_written_is_cached_at_home(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: not Path(path).is_relative_to(root))
    first = load_dataset(SETTINGS, root)
    assert not (root / ".nearsight-cache").exists()
    monkeypatch.setattr(cache, "_build", lambda *_: pytest.fail("decoded twice"))
    assert same(load_dataset(SETTINGS, root), first)


@pytest.mark.processes
def test_two_processes_that_decode_at_once_both_succeed(root: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from nearsight.data.sets.cifar import cifar\n"
        "from nearsight.data.sets.cache import load_decoded\n"
        "root = Path(sys.argv[1])\n"
        "print(load_decoded(cifar('cifar100', root / 'cifar-100-binary'), root).hash)\n"
    )
    command = [sys.executable, "-c", code, str(root)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    hashes = {process.communicate(timeout=60)[0].strip() for process in processes}
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert hashes == {load_dataset(SETTINGS, root).hash}
