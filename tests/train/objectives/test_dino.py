"""DINO in whole runs: what is kept, resumed, refused, and that a collapse is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from train.recording import PowerCut, Recorder, cut_power, terminate

from nearsight.core import UserError
from nearsight.core.processes import World
from nearsight.core.signals import Interrupted
from nearsight.data.sets.catalog import load_dataset
from nearsight.models.load.registry import model_for
from nearsight.protocol.overrides import override
from nearsight.protocol.presets import preset
from nearsight.protocol.schema import Distillation, Protocol
from nearsight.runs.files import LOG, WEIGHTS, read_log, read_record
from nearsight.runs.load import load_run
from nearsight.train.loop import train_run
from nearsight.train.preparation import prepare
from nearsight.train.step import Stepper

pytestmark = pytest.mark.training
CPU = torch.device("cpu")
SMALL = (
    "model.image_size=null", "epochs=3", "warmup_epochs=1", "batch_size=29", "optimizer.lr=1e-3",
    "dino.hidden=13", "dino.bottleneck=11", "dino.outputs=31", "dino.num_local=3",
    "dino.local_size=6", "dino.teacher_momentum=0.7", "dino.knn_neighbours=5",
)  # fmt: skip


@pytest.fixture
def labelless(small: Protocol) -> Protocol:
    """DINO on the images of ``small``: 3 epochs of 4 steps, grids of 8x8 and 3x3 patches."""
    protocol = override(preset("dino", small.data.name, "mu_locat"), SMALL)
    return replace(protocol, data=small.data)


def _train(protocol: Protocol, out: Path, recorder: Recorder | None = None) -> Recorder:
    recorder = recorder or Recorder()
    train_run(protocol, out, device="cpu", data_root=out.parent, reporter=recorder)
    return recorder


@pytest.mark.parametrize(
    ("at_step", "act", "error"), [(6, cut_power, PowerCut), (5, terminate, Interrupted)]
)
def test_a_stopped_run_ends_with_the_same_bytes(
    labelless: Protocol,
    tmp_path: Path,
    at_step: int,
    act: Callable[[], None],
    error: type[BaseException],
):
    protocol = replace(labelless, measure_every=2, measure_images=5)
    _train(protocol, tmp_path / "whole")
    with pytest.raises(error):
        _train(protocol, tmp_path / "stopped", Recorder(at_step, act))
    torch.manual_seed(7)  # another process has another state
    rest = _train(protocol, tmp_path / "stopped")
    assert len(rest.losses) == (7 if error is Interrupted else 8)
    for name in (WEIGHTS, LOG):
        whole, stopped = ((tmp_path / run / name).read_bytes() for run in ("whole", "stopped"))
        assert stopped == whole


def test_the_first_losses_are_the_golden_ones(labelless: Protocol, tmp_path: Path):
    """Tolerance 1e-3: other CPUs round differently, and the teacher's temperature makes it more."""
    losses = _train(labelless, tmp_path / "run").losses
    golden = Path(__file__).parents[1] / "golden" / "dino_losses.json"
    assert losses == pytest.approx(json.loads(golden.read_text()), abs=1e-3)


def test_the_kept_weights_load_measure_and_score_as_the_run_says(
    labelless: Protocol, tmp_path: Path
):
    out = tmp_path / "run"
    _train(replace(labelless, epochs=2, measure_every=1, measure_images=5), out)
    record, lines = read_record(out).contents(), read_log(out)
    result = record["result"]
    assert "test_accuracy" not in result
    assert [line.epoch for line in lines] == [0, 1, 2]
    assert all(line.attention is not None for line in lines)
    scores = [line.validation_knn_accuracy for line in lines[1:]]
    assert result["validation_knn_accuracy"] == max(scores)
    run = load_run(out)
    data = load_dataset(run.protocol.data, tmp_path)
    train = _split(run.protocol, data.train.labels)
    with torch.no_grad():
        memory, queries = (
            F.normalize(run.model.forward_head(run.model.forward_features(x), pre_logits=True))
            for x in (
                run.transform(torch.from_numpy(data.train.images[train])),
                run.transform(torch.from_numpy(data.test.images[:].copy())),
            )
        )
    hits = 0
    for query, truth in zip(queries, data.test.labels.tolist(), strict=True):
        cosines = (memory @ query).tolist()
        near = sorted(range(len(cosines)), key=lambda i: -cosines[i])[:5]
        votes = dict.fromkeys(range(3), 0.0)
        for i in near:
            votes[int(data.train.labels[train][i])] += float(torch.tensor(cosines[i] / 0.07).exp())
        hits += max(votes, key=votes.__getitem__) == truth
    assert result["test_knn_accuracy"] == pytest.approx(hits / len(queries))


def _split(protocol: Protocol, labels):
    from nearsight.data.sets.split import stratified_split

    settings = protocol.data
    return stratified_split(labels, settings.validation_fraction, settings.split_seed)[0]


def test_teacher_and_student_start_alike_and_the_classifier_is_not_trained(
    labelless: Protocol, tmp_path: Path
):
    parts = prepare(labelless, 0, World(CPU), tmp_path, False, "ddp")
    teacher, student = parts.objective.companion.branch, parts.objective.trained
    for (name, mine), theirs in zip(teacher.named_parameters(), student.parameters(), strict=True):
        assert torch.equal(mine, theirs), name
    _train(labelless, tmp_path / "run")
    kept = load_file(tmp_path / "run" / WEIGHTS)
    torch.manual_seed(0)
    start, _ = model_for(labelless.model, 3, (16, 16))
    same = {name for name, x in start.state_dict().items() if torch.equal(x, kept[name])}
    assert same == {"head.weight", "head.bias"}


def test_a_step_moves_what_it_should(labelless: Protocol, tmp_path: Path):
    """Last layer frozen in the first epoch; teacher and centre by their recursions."""
    parts = prepare(labelless, 0, World(CPU), tmp_path, False, "ddp")
    objective, stepper = parts.objective, Stepper(parts, tmp_path)
    batch = next(objective.batches(1))
    before = [x.clone() for x in objective.companion.branch.parameters()]
    with torch.no_grad():
        outputs = objective.companion.branch(batch.whole).double()
    last = objective.trained.head.last.weight.clone()
    stepper.take(batch)
    assert torch.equal(objective.trained.head.last.weight, last)
    weights = zip(
        objective.companion.branch.parameters(), before, objective.trained.parameters(), strict=True
    )
    for now, old, student in weights:
        torch.testing.assert_close(now, 0.7 * old + 0.3 * student, atol=1e-6, rtol=0)
    expected = 0.1 * outputs.mean(0)
    torch.testing.assert_close(objective.companion.centre.double(), expected, atol=1e-6, rtol=0)
    parts.state.counters.epoch = 2
    stepper.take(next(objective.batches(2)))
    assert not torch.equal(objective.trained.head.last.weight, last)


def test_schedules_are_those_of_plain_loops(labelless: Protocol, tmp_path: Path):
    import math

    protocol = override(
        labelless,
        ["dino.first_teacher_temperature=0.02", "dino.teacher_warmup_epochs=3", "epochs=5"],
    )
    parts = prepare(protocol, 0, World(CPU), tmp_path, False, "ddp")
    objective, total = parts.objective, 5 * 4
    for step in range(total):
        wave = 0.5 * (1 + math.cos(math.pi * step / total))
        assert objective.momentum(step) == pytest.approx(1 + (0.7 - 1) * wave)
    found = [objective.teacher_temperature(epoch) for epoch in range(1, 6)]
    assert found == pytest.approx([0.02, 0.03, 0.04, 0.04, 0.04])  # numpy.linspace(.02, .04, 3)
    stepper = Stepper(parts, tmp_path)
    for step in (0, 7, 19):
        parts.state.counters.total_steps = step
        stepper.set_rates()
        decays = {group["weight_decay"] for group in parts.state.optimizer.param_groups}
        wave = 0.5 * (1 + math.cos(math.pi * step / total))
        assert sorted(decays) == pytest.approx([0.0, 0.4 + (0.04 - 0.4) * wave])


def test_a_collapse_is_said_in_words(labelless: Protocol, tmp_path: Path):
    """Without sharpening the teacher's output becomes uniform."""
    quick = ["dino.centre_momentum=0.3", "epochs=2"]
    flat = override(labelless, ["dino.teacher_temperature=30", *quick])
    recorder = _train(flat, tmp_path / "flat")
    said = [note for note in recorder.notes if note.startswith("Collapse:")]
    assert said
    assert "about the same probability" in said[-1]
    assert "dino.teacher_temperature" in said[-1]
    last = read_log(tmp_path / "flat")[-1]
    assert last.teacher_entropy > 0.99
    assert last.teacher_information < 0.01
    slow = override(labelless, ["optimizer.lr=1e-5", *quick])
    healthy = _train(slow, tmp_path / "healthy")
    assert not any(note.startswith("Collapse:") for note in healthy.notes)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ("cutmix={}", r"\bcutmix\b.*\bdino\b.*--set cutmix=null"),
        ("ema_decay=0.9", r"\bema_decay\b.*--set ema_decay=null"),
        ("label_smoothing=0.1", "--set label_smoothing=0.0"),
        ("model.distilled=true", "--set model.distilled=false"),
        ("dino.local_size=5", r"\bmu_locat\b.*\b5x5 pixels\b.*\bdino\.local_size\b"),
    ],
)
def test_what_dino_cannot_use_is_refused_with_the_cure(
    labelless: Protocol, tmp_path: Path, change: str, word: str
):
    with pytest.raises(UserError, match=word):
        _train(override(labelless, [change]), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_two_objectives_are_refused(labelless: Protocol, tmp_path: Path):
    both = replace(labelless, distillation=Distillation(weights="random"))
    with pytest.raises(UserError, match=r"\bdistillation and dino\b.*--set distillation=null"):
        _train(both, tmp_path / "run")


def test_fsdp_is_refused(labelless: Protocol, tmp_path: Path):
    with pytest.raises(UserError, match="--parallel ddp"):
        prepare(labelless, 0, World(CPU, 0, 2), tmp_path, False, "fsdp")
