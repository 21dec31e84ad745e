"""A run folder after training: what it holds, what is refused, when training stops."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from train.recording import PowerCut, Recorder, cut_power

from nearsight.core import UserError
from nearsight.data.sets.catalog import load_dataset
from nearsight.protocol.schema import Mixup, Optimizer, Protocol
from nearsight.runs import read_answers
from nearsight.runs.files import RECORD, WEIGHTS, locked, read_log, read_record
from nearsight.runs.load import load_run
from nearsight.train.loop import Refusal, train_run


def _train(protocol: Protocol, out: Path, **options: object) -> Recorder:
    recorder = options.pop("reporter", None) or Recorder()
    train_run(protocol, out, device="cpu", data_root=out.parent, reporter=recorder, **options)
    return recorder


def test_a_run_holds_the_best_epochs_weights_and_their_test_accuracy(
    small: Protocol, tmp_path: Path
):
    out = tmp_path / "run"
    _train(replace(small, epochs=7, optimizer=Optimizer(lr=3e-3)), out)
    record, lines = read_record(out).contents(), [x.contents() for x in read_log(out)]
    accuracies = [line["validation_accuracy"] for line in lines]
    best = accuracies.index(max(accuracies)) + 1
    assert record["result"]["best_epoch"] == best
    assert [line["best"] for line in lines][best - 1]
    assert record["result"]["images_seen"] == 7 * 99
    run = load_run(out)
    dataset = load_dataset(run.protocol.data, tmp_path)
    with torch.no_grad():
        logits = run.model(run.transform(torch.from_numpy(dataset.test.images.copy())))
    accuracy = (logits.argmax(-1).numpy() == dataset.test.labels).mean()
    assert record["result"]["test_accuracy"] == pytest.approx(accuracy)
    answers = read_answers(out, record["result"]["num_test"])
    assert answers.tolist() == (logits.argmax(-1).numpy() == dataset.test.labels).tolist()
    assert accuracy > 0.6  # three colours; chance is 1/3


def test_a_finished_run_says_so_and_changes_no_file(small: Protocol, tmp_path: Path):
    out = tmp_path / "run"
    _train(small, out)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.name != "lock"}
    again = _train(small, out)
    assert again.losses == []
    assert "is finished" in again.notes[0]
    assert before == {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.name != "lock"}


@pytest.mark.parametrize(("change", "word"), [({"cutmix": None}, "cutmix"), ({}, "seed")])
def test_a_folder_with_another_run_is_refused_untouched(
    small: Protocol, tmp_path: Path, change: dict[str, None], word: str
):
    out = tmp_path / "run"
    _train(small, out)
    content = (out / RECORD).read_bytes()
    with pytest.raises(UserError, match=rf"/run .*\bseed 0\b.*\b{word}\b.*--out"):
        _train(replace(small, **change), out, seed=0 if change else 5)
    assert (out / RECORD).read_bytes() == content


def test_a_second_train_on_the_folder_is_refused(small: Protocol, tmp_path: Path):
    with locked(tmp_path), pytest.raises(UserError, match=r"\btrain\b.*/test_\w+"):
        _train(small, tmp_path)


def test_changed_data_are_refused_on_resume(small: Protocol, tmp_path: Path):
    out = tmp_path / "run"
    with pytest.raises(PowerCut):
        _train(small, out, reporter=Recorder(5, cut_power))
    record = read_record(out).contents()
    record["data"]["hash"] = "0" * 16
    (out / RECORD).write_text(json.dumps(record))
    with pytest.raises(UserError, match=r"/run .*\b0{16}\b"):
        _train(small, out)


def test_a_run_from_before_a_setting_existed_goes_on(small: Protocol, tmp_path: Path):
    out = tmp_path / "run"
    with pytest.raises(PowerCut):
        _train(small, out, reporter=Recorder(5, cut_power))
    record = read_record(out).contents()
    del record["protocol"]["distillation"], record["protocol"]["model"]["distilled"]
    del record["teacher"]
    (out / RECORD).write_text(json.dumps(record))
    assert len(_train(small, out).losses) == 8
    with pytest.raises(UserError, match=r"/run .*\bseed 0\b.*\bmodel\b.*--out"):
        _train(replace(small, model=replace(small.model, distilled=True)), out)


def test_a_nan_loss_stops_names_epoch_and_rate_and_keeps_the_last_good_state(
    small: Protocol, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    out = tmp_path / "run"
    calls = []

    def spoilt(self: nn.Module, images: torch.Tensor) -> torch.Tensor:
        calls.append(self.training)
        logits = original(self, images)
        return logits * math.nan if sum(calls) == 7 else logits

    from nearsight.models.vit import VisionTransformer

    original = VisionTransformer.forward
    monkeypatch.setattr(VisionTransformer, "forward", spoilt)
    with pytest.raises(UserError, match=r"\bnan\b.*\bepoch 2\b.*\b0\.000\d+"):
        _train(small, out)
    monkeypatch.undo()
    assert len(read_log(out)) == 1
    _train(small, out)
    _train(small, tmp_path / "undisturbed")
    assert (out / WEIGHTS).read_bytes() == (tmp_path / "undisturbed" / WEIGHTS).read_bytes()


def test_training_stops_when_validation_does_not_improve(small: Protocol, tmp_path: Path):
    out = tmp_path / "run"
    still = replace(small, epochs=11, patience=2, optimizer=Optimizer(lr=1e-12))
    _train(still, out)
    result = read_record(out).contents()["result"]
    assert (result["best_epoch"], result["num_epochs"], result["stopped_early"]) == (1, 3, True)


def test_mixed_samples_do_not_count_for_the_training_accuracy(small: Protocol, tmp_path: Path):
    always = replace(small, cutmix=None, mixup=Mixup(probability=1.0), epochs=1)
    _train(always, tmp_path / "run")
    assert read_log(tmp_path / "run")[0].train_accuracy is None


def test_clipping_makes_the_gradient_as_long_as_asked(small: Protocol, tmp_path: Path):
    """One step of AdamW with eps far above the gradient moves the weights by lr / eps of it."""
    one_step = replace(small, epochs=1, warmup_epochs=0, batch_size=99)

    def weights_after(name: str, lr: float, clip_norm: float | None) -> torch.Tensor:
        optimizer = Optimizer(lr=lr, eps=1e3, weight_decay=0.0, clip_norm=clip_norm)
        assert len(_train(replace(one_step, optimizer=optimizer), tmp_path / name).losses) == 1
        return torch.cat([x.flatten() for x in load_file(tmp_path / name / WEIGHTS).values()])

    start = weights_after("start", lr=1e-30, clip_norm=None)
    plain = weights_after("plain", lr=1e3, clip_norm=None) - start
    clipped = weights_after("clipped", lr=1e3, clip_norm=0.013) - start
    assert plain.norm() > 0.13
    assert clipped.norm() == pytest.approx(0.013, rel=1e-2)
    assert torch.cosine_similarity(clipped, plain, dim=0) == pytest.approx(1.0, abs=1e-2)


def test_a_head_with_fewer_outputs_than_classes_is_refused(small: Protocol, tmp_path: Path):
    narrow = replace(small, model=replace(small.model, num_classes=2))
    with pytest.raises(UserError, match=r"\bnum_classes is 2\b.*\b3 classes\b"):
        _train(narrow, tmp_path / "run")


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_stays_near_float32(small: Protocol, tmp_path: Path, precision: str):
    full = _train(replace(small, epochs=1), tmp_path / "full").losses
    half = _train(replace(small, epochs=1, precision=precision), tmp_path / "half").losses
    assert half == pytest.approx(full, abs=0.02)
    assert half != full


def test_the_first_twenty_losses_are_the_golden_ones(small: Protocol, tmp_path: Path):
    """Tolerance 1e-4: other CPUs round differently, a changed recipe moves by more."""
    losses = _train(replace(small, epochs=5), tmp_path / "run").losses
    golden = Path(__file__).parent / "golden" / "train_losses.json"
    assert losses == pytest.approx(json.loads(golden.read_text()), abs=1e-4)


def test_tensorboard_gets_a_curve_per_number(small: Protocol, tmp_path: Path):
    pytest.importorskip("tensorboard")
    _train(replace(small, epochs=1), tmp_path / "run", trackers=("tensorboard",))
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "run/tensorboard"))
    events.Reload()
    line = read_log(tmp_path / "run")[0].contents()
    assert events.Scalars("train_loss")[0].value == pytest.approx(line["train_loss"])


def test_an_unknown_tracker_is_refused_by_name(small: Protocol, tmp_path: Path):
    with pytest.raises(UserError, match=r"'tensorbored'.*\bmean tensorboard\b"):
        _train(small, tmp_path / "run", trackers=("tensorbored",))
    assert not (tmp_path / "run").exists()  # a corrected command finds the folder free


def test_a_refusal_removes_only_what_it_made(tmp_path: Path):
    (tmp_path / "run.json").write_text("kept")
    refusal = Refusal(tmp_path)
    (tmp_path / "lock").touch()
    refusal.__exit__(ValueError)
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
