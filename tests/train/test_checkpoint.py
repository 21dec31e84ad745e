"""Checkpoints: what was saved comes back, damage is seen, two are kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from nearsight.train.checkpoint import checkpoints, load_checkpoint, save_checkpoint


def _save(folder: Path, step: int) -> Path:
    return save_checkpoint(folder, step, {"a": torch.full((3,), step / 7)}, {"step": step})


def test_the_newest_checkpoint_comes_back_and_two_are_kept(tmp_path: Path):
    folder = tmp_path / "checkpoint"
    for step in (5, 7, 11):
        _save(folder, step)
    assert [path.name for path in checkpoints(folder)] == ["step-00000007", "step-00000011"]
    tensors, state = load_checkpoint(folder, print)
    assert state == {"step": 11}
    assert torch.equal(tensors["a"], torch.full((3,), 11 / 7))


@pytest.mark.parametrize("name", ["tensors.safetensors", "state.json"])
@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_used(
    tmp_path: Path, name: str, harm: str
):
    folder = tmp_path / "checkpoint"
    _save(folder, 5)
    file = _save(folder, 7) / name
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    if harm == "remove":
        file.unlink()
    else:
        file.write_bytes(content if harm == "flip" else content[: len(content) // 2])
    said: list[str] = []
    _, state = load_checkpoint(folder, said.append)
    assert state == {"step": 5}
    assert "step-00000007 is damaged" in said[0]


def test_a_checkpoint_whose_hash_is_no_text_is_damaged(tmp_path: Path):
    folder = tmp_path / "checkpoint"
    _save(folder, 5)
    file = _save(folder, 7) / "state.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "sha256": None}))
    _, state = load_checkpoint(folder, lambda text: None)
    assert state == {"step": 5}


def test_a_half_written_checkpoint_is_ignored_and_cleared(tmp_path: Path):
    folder = tmp_path / "checkpoint"
    _save(folder, 5)
    leftover = folder / ".tmp-99999"
    leftover.mkdir()
    (leftover / "tensors.safetensors").write_bytes(b"half")
    assert load_checkpoint(folder, print)[1] == {"step": 5}
    assert not leftover.exists()


def test_no_checkpoint_is_none(tmp_path: Path):
    assert load_checkpoint(tmp_path / "checkpoint", print) is None


def test_a_full_disk_leaves_the_checkpoint_before_untouched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "checkpoint"
    _save(folder, 5)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left") as error:
        _save(folder, 7)
    assert str(error.value.filename).endswith("tensors.safetensors")
    monkeypatch.undo()
    assert [path.name for path in folder.iterdir()] == ["step-00000005"]
    assert load_checkpoint(folder, print)[1] == {"step": 5}
