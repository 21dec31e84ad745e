"""Attention is looked at while a run trains, on validation images, and nothing else changes."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from train.recording import PowerCut, Recorder, cut_power, terminate

import nearsight as ns
from nearsight.core.signals import Interrupted
from nearsight.data import draws
from nearsight.data.sets.catalog import load_dataset
from nearsight.data.sets.split import stratified_split
from nearsight.models.load.registry import model_for
from nearsight.protocol.schema import CutMix, ModelSettings, Protocol
from nearsight.runs.files import LOG, WEIGHTS, read_log
from nearsight.runs.load import load_run
from nearsight.train.loop import train_run


def _train(protocol: Protocol, out: Path) -> list[dict]:
    train_run(protocol, out, device="cpu", data_root=out.parent, reporter=Recorder())
    return [line.contents() for line in read_log(out)]


def test_the_start_and_every_second_epoch_tell_their_attention_and_the_run_is_the_same(
    small: Protocol, tmp_path: Path
):
    plain = _train(replace(small, epochs=5), tmp_path / "plain")
    looked = _train(
        replace(small, epochs=5, measure_every=2, measure_images=7), tmp_path / "looked"
    )
    assert [line["epoch"] for line in looked if "attention" in line] == [0, 2, 4]
    start = looked.pop(0)
    added = {"attention", "clean_train_loss"}
    assert set(start) == {"schema_version", "epoch", "step", *added}
    without = [{key: x for key, x in line.items() if key not in added} for line in looked]
    assert without == plain
    weights = [(tmp_path / name / WEIGHTS).read_bytes() for name in ("plain", "looked")]
    assert weights[0] == weights[1]
    attention = [line["attention"] for line in [start, *looked] if "attention" in line]
    assert {seen["num_images"] for seen in attention} == {7}


def test_every_look_is_what_measuring_the_weights_gives(small: Protocol, tmp_path: Path):
    protocol = replace(small, epochs=1, measure_every=1, measure_images=11)
    lines = _train(protocol, tmp_path / "run")
    run = load_run(tmp_path / "run")
    train = load_dataset(run.protocol.data, tmp_path).train
    settings = run.protocol.data
    _, validation = stratified_split(
        train.labels, settings.validation_fraction, settings.split_seed
    )
    order = draws.permutation("measured while training", 0, length=len(validation))
    chosen = validation[order[:11].sort().values.numpy()]
    images = run.transform(torch.from_numpy(train.images[chosen]))
    torch.manual_seed(0)  # the run's seed: its weights before training
    num_classes = run.model.head.out_features
    fresh, _ = model_for(run.protocol.model, num_classes, train.images.shape[2:])
    for line, model in zip(lines, (fresh, run.model), strict=True):
        metrics = ("mad", "entropy", "self_mass", "mad_without_self")
        profile = ns.measure_model(model, images, metrics=(*metrics, "nonlocality"))
        for metric in metrics:
            for part in ("mean", "low", "high"):
                expected = [x.tolist() for x in getattr(profile.metrics[metric], part)]
                for mine, yours in zip(line["attention"][metric][part], expected, strict=True):
                    assert mine == pytest.approx(yours, abs=1e-6)
        far = [x.mean() for x in profile.nonlocality.values]
        found = line["attention"]["layer_mean_nonlocality"]
        assert [x["value"] for x in found] == pytest.approx(far, abs=1e-6)
        assert "gpsa" not in line["attention"]


def test_the_clean_loss_is_that_of_unaugmented_training_images_with_hard_labels(
    small: Protocol, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("nearsight.train.objectives.labels.CLEAN_IMAGES", 53)
    protocol = replace(small, epochs=1, measure_every=1, label_smoothing=0.3, cutmix=CutMix())
    _, end = _train(protocol, tmp_path / "run")
    run = load_run(tmp_path / "run")
    train = load_dataset(run.protocol.data, tmp_path).train
    settings = run.protocol.data
    rows, _ = stratified_split(train.labels, settings.validation_fraction, settings.split_seed)
    order = draws.permutation("clean loss", 0, length=len(rows))
    chosen = rows[order[:53].numpy()]
    with torch.no_grad():
        logits = run.model(run.transform(torch.from_numpy(train.images[chosen])))
    right = torch.from_numpy(train.labels[chosen].astype("int64"))
    expected = -logits.log_softmax(-1)[torch.arange(53), right].mean()
    assert end["clean_train_loss"] == pytest.approx(expected.item(), abs=1e-5)


def test_attention_is_looked_at_under_autocast(small: Protocol, tmp_path: Path):
    protocol = replace(small, epochs=1, measure_every=1, precision="bf16")
    _, line = _train(protocol, tmp_path / "run")
    assert 0 < line["attention"]["mad"]["mean"][0][0] < 1


def test_gates_are_told_from_the_start_on_and_a_stopped_run_tells_the_same(
    small: Protocol, tmp_path: Path
):
    model = ModelSettings(name="mu_convit")
    protocol = replace(small, epochs=1, measure_every=1, measure_images=5, model=model)
    start, end = _train(protocol, tmp_path / "whole")
    gpsa = start["attention"]["gpsa"]
    assert gpsa[0]["gate"] == pytest.approx([1 / (1 + math.exp(-1))] * 2)
    assert gpsa[0]["centre"][0] == [0, 0]  # two heads: a 1x1 kernel, and one beyond it
    assert gpsa[1] is None
    trained = ns.gpsa_gates(load_run(tmp_path / "whole").model)["blocks.0.attn"]
    assert end["attention"]["gpsa"][0]["gate"] == pytest.approx(trained.gate)
    assert end["attention"]["gpsa"][0]["gate"] != gpsa[0]["gate"]
    for act, error in ((cut_power, PowerCut), (terminate, Interrupted)):
        out = tmp_path / error.__name__
        with pytest.raises(error):
            train_run(protocol, out, device="cpu", data_root=tmp_path, reporter=Recorder(2, act))
        _train(protocol, out)
        assert (out / LOG).read_bytes() == (tmp_path / "whole" / LOG).read_bytes()
