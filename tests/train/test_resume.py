"""A run that was stopped ends with the bytes of one that never was."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest
from train.recording import PowerCut, Recorder, cut_power, terminate

from nearsight.core.signals import Interrupted
from nearsight.native import Status
from nearsight.protocol.schema import Protocol
from nearsight.runs.files import LOG, WEIGHTS, read_record
from nearsight.train.loop import train_run

STEPS = 12  # 3 epochs of 4


def _train(protocol: Protocol, out: Path, recorder: Recorder | None = None) -> Recorder:
    recorder = recorder or Recorder()
    train_run(protocol, out, device="cpu", data_root=out.parent, reporter=recorder)
    return recorder


def _bytes(out: Path) -> tuple[bytes, bytes]:
    return (out / WEIGHTS).read_bytes(), (out / LOG).read_bytes()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[bytes, bytes]]:
    return {}


@pytest.mark.parametrize("average", [None, 0.9], ids=["plain", "average"])
@pytest.mark.parametrize(
    ("at_step", "act", "error"),
    [
        (1, cut_power, PowerCut),
        (6, cut_power, PowerCut),
        (8, cut_power, PowerCut),
        (5, terminate, Interrupted),
        (8, terminate, Interrupted),
    ],
)
def test_a_stopped_run_ends_with_the_same_bytes(
    small: Protocol,
    tmp_path: Path,
    undisturbed: dict[str, tuple[bytes, bytes]],
    average: float | None,
    at_step: int,
    act: Callable[[], None],
    error: type[BaseException],
):
    protocol = replace(small, ema_decay=average, mixup=None)
    if str(average) not in undisturbed:
        _train(protocol, tmp_path / "whole")
        undisturbed[str(average)] = _bytes(tmp_path / "whole")
    with pytest.raises(error):
        _train(protocol, tmp_path / "stopped", Recorder(at_step, act))
    rest = _train(protocol, tmp_path / "stopped")
    assert _bytes(tmp_path / "stopped") == undisturbed[str(average)]
    done = at_step if error is Interrupted else at_step // 4 * 4 - (4 if at_step == 8 else 0)
    assert len(rest.losses) == STEPS - done


def test_sigterm_writes_a_checkpoint_in_mid_epoch_and_means_exit_143(
    small: Protocol, tmp_path: Path
):
    with pytest.raises(Interrupted) as stopped:
        _train(small, tmp_path / "run", Recorder(6, terminate))
    assert stopped.value.exit_code == 143
    assert (tmp_path / "run/checkpoint/step-00000006").is_dir()
    assert "continues at epoch 2, step 2" in _train(small, tmp_path / "run").notes


def test_a_damaged_checkpoint_and_a_half_written_line_change_nothing(
    small: Protocol, tmp_path: Path
):
    _train(small, tmp_path / "whole")
    with pytest.raises(PowerCut):
        _train(small, tmp_path / "run", Recorder(11, cut_power))
    newest = tmp_path / "run/checkpoint/step-00000008/tensors.safetensors"
    newest.write_bytes(newest.read_bytes()[:-9])
    with (tmp_path / "run" / LOG).open("a") as log:
        log.write('{"schema_version": 1, "epo')
    (tmp_path / "run" / WEIGHTS).write_bytes(b"")
    notes = _train(small, tmp_path / "run").notes
    assert any("step-00000008 is damaged" in note for note in notes)
    assert _bytes(tmp_path / "run") == _bytes(tmp_path / "whole")


def test_another_precision_is_said_to_be_inexact(small: Protocol, tmp_path: Path):
    half = replace(small, precision="bf16")
    with pytest.raises(PowerCut):
        _train(half, tmp_path / "run", Recorder(6, cut_power))
    notes = _train(half, tmp_path / "run").notes
    assert any("not bit-exact" in note for note in notes)


def test_another_thread_count_is_said_to_be_inexact(
    small: Protocol, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(PowerCut):
        _train(small, tmp_path / "run", Recorder(6, cut_power))
    monkeypatch.setattr("torch.get_num_threads", lambda: 13)
    assert "not bit-exact: threads changed" in _train(small, tmp_path / "run").notes
    (stretch,) = read_record(tmp_path / "run").provenance.stretches
    assert (stretch.hardware["threads"], stretch.from_epoch, stretch.from_step) == (13, 2, 0)
    assert read_record(tmp_path / "run").provenance.hardware["threads"] == 1


def test_every_stretch_of_a_run_is_recorded_if_a_version_changed(
    small: Protocol, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for at_step, version in ((6, "0.1.0"), (5, "9.9.9"), (None, "9.9.9")):
        monkeypatch.setattr("nearsight.__version__", version)
        monkeypatch.setattr(metadata, "version", lambda name, now=version: now)
        if at_step:
            with pytest.raises(PowerCut):
                _train(small, tmp_path / "run", Recorder(at_step, cut_power))
    notes = _train(small, tmp_path / "run").notes
    assert "not bit-exact: an earlier resume changed the conditions" in notes
    record = read_record(tmp_path / "run")
    (stretch,) = record.provenance.stretches  # the third is under the conditions of the second
    assert record.provenance.versions["nearsight"] == "0.1.0"
    assert (stretch.versions["nearsight"], stretch.from_epoch) == ("9.9.9", 2)
    digest = hashlib.sha256((tmp_path / "run" / WEIGHTS).read_bytes()).hexdigest()
    assert record.weights_sha256 == digest


def test_with_and_without_the_compiled_library_is_said_to_be_inexact(
    small: Protocol, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    loaded = Status(True, compiler="GCC 12.2.0", instructions="avx2")
    monkeypatch.setattr("nearsight.train.checkpoint.status", lambda: loaded)
    with pytest.raises(PowerCut):
        _train(small, tmp_path / "run", Recorder(6, cut_power))
    monkeypatch.setattr("nearsight.train.checkpoint.status", lambda: Status(False, "turned off"))
    assert "not bit-exact: native_library changed" in _train(small, tmp_path / "run").notes
