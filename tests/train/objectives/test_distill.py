"""A student follows a teacher: the loss, the teacher's view of the images, whole runs, refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import timm
import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import save_file
from train.recording import PowerCut, Recorder, cut_power, terminate

from nearsight.core import UserError
from nearsight.core.processes import World
from nearsight.core.signals import Interrupted
from nearsight.data.input.transform import InputTransform
from nearsight.data.sets.catalog import load_dataset
from nearsight.data.sets.split import stratified_split
from nearsight.models.load.registry import create_model
from nearsight.protocol.schema import Distillation, Mixup, ModelSettings, Protocol
from nearsight.runs.files import LOG, WEIGHTS, read_record
from nearsight.runs.load import load_run
from nearsight.train.batches import Samples, epoch_batches
from nearsight.train.loop import train_run
from nearsight.train.objectives.distill import (
    Teacher,
    distillation_loss,
    soft_distillation,
    teacher_of,
    weights_hash,
)
from nearsight.train.objectives.labels import soft_cross_entropy
from nearsight.train.preparation import prepare

TINY = Distillation(teacher="test_resnet", weights="random", image_size=32)
CPU = torch.device("cpu")
OURS = InputTransform((0.4, 0.5, 0.6), (0.2, 0.25, 0.3), (12, 20), torch.float64)


def _train(protocol: Protocol, out: Path, recorder: Recorder | None = None) -> Recorder:
    recorder = recorder or Recorder()
    train_run(protocol, out, device="cpu", data_root=out.parent, reporter=recorder)
    return recorder


@pytest.fixture
def taught(small: Protocol) -> Protocol:
    """``small`` with a distillation token and a small convolutional teacher."""
    model = replace(small.model, distilled=True)
    return replace(small, model=model, distillation=TINY)


def test_the_loss_is_the_one_solved_by_hand():
    of_class = torch.tensor([[0.0, math.log(3)], [math.log(4), 0.0]], dtype=torch.float64)
    of_teacher = torch.tensor([[math.log(7), 0.0], [0.0, 0.0]], dtype=torch.float64)
    targets = torch.tensor([[0.0, 1.0], [0.5, 0.5]], dtype=torch.float64)
    found = distillation_loss(of_class, of_teacher, targets, torch.tensor([1, 0]), share=0.25)
    learned = [-math.log(3 / 4), -0.5 * math.log(4 / 5) - 0.5 * math.log(1 / 5)]
    followed = [-math.log(1 / 8), -math.log(1 / 2)]
    expected = [0.75 * x + 0.25 * y for x, y in zip(learned, followed)]
    assert found.tolist() == pytest.approx(expected, abs=1e-12)


def test_share_0_is_plain_cross_entropy_and_share_1_the_teachers_alone():
    of_class, of_teacher = torch.randn(2, 13, 7, requires_grad=True).unbind()
    targets, choices = torch.rand(13, 7).softmax(-1), torch.arange(13) % 7
    none = distillation_loss(of_class, of_teacher, targets, choices, share=0.0)
    assert none.equal(soft_cross_entropy(of_class, targets))
    alone = distillation_loss(of_class, of_teacher, targets, choices, share=1.0)
    torch.testing.assert_close(alone, F.cross_entropy(of_teacher, choices, reduction="none"))
    (grad,) = torch.autograd.grad(alone.sum(), of_class)
    assert grad.eq(0).all()


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_soft_distillation_is_the_sum_of_a_plain_loop(temperature: float):
    logits, taught = torch.randn(2, 5, 7, dtype=torch.float64).mul(3).unbind()
    expected = []
    for ours, theirs in zip(logits.tolist(), taught.tolist(), strict=True):
        total = 0.0
        sums = [sum(math.exp(x / temperature) for x in row) for row in (ours, theirs)]
        for mine, yours in zip(ours, theirs, strict=True):
            q, p = (math.exp(x / temperature) / s for x, s in zip((mine, yours), sums, strict=True))
            total += p * math.log(p / q)
        expected.append(temperature**2 * total)
    found = soft_distillation(logits, taught, temperature)
    assert found.tolist() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("distilled", [False, True], ids=["one head", "two heads"])
def test_the_first_step_of_soft_distillation_has_the_loss_of_the_formula(
    small: Protocol, tmp_path: Path, distilled: bool
):
    teaching = replace(TINY, kind="soft", temperature=2.0, share=0.25)
    model = replace(small.model, distilled=distilled)
    once = replace(small, epochs=1, cutmix=None, model=model, distillation=teaching)
    parts = prepare(once, 0, World(CPU), tmp_path, False, "ddp")
    batch = next(parts.batches(1))
    assert parts.objective.teacher is not None
    with torch.no_grad():
        answer = parts.objective.called(batch.images)
    of_class, of_teacher = answer if distilled else (answer, answer)
    taught = parts.objective.teacher.model(parts.objective.teacher.convert(batch.images))
    learned = F.cross_entropy(of_class, batch.labels)
    followed = F.kl_div(
        (of_teacher / 2).log_softmax(-1), (taught / 2).softmax(-1), reduction="batchmean"
    )
    expected = 0.75 * float(learned) + 0.25 * 4 * float(followed)
    losses = _train(once, tmp_path / "run").losses
    assert losses[0] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("size", [(12, 20), (31, 17)], ids=["same size", "other size"])
def test_the_teacher_sees_what_its_own_transform_would_make_of_the_pixels(size: tuple[int, int]):
    pixels = torch.arange(5 * 3 * 12 * 20).mul(37).remainder(256).to(torch.uint8)
    pixels = pixels.view(5, 3, 12, 20)
    own = InputTransform((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), size, torch.float64)
    teacher = Teacher(torch.nn.Identity(), own, OURS, {}, 7)
    torch.testing.assert_close(teacher.convert(OURS(pixels)), own(pixels))


@pytest.mark.slow
def test_a_teacher_of_timm_brings_its_configuration_and_random_weights_are_always_the_same():
    settings = Distillation(teacher="resnet10t", weights="random")
    one, other = (teacher_of(settings, OURS, 7, "abcdefg", CPU) for _ in range(2))
    cfg = timm.create_model("resnet10t").pretrained_cfg
    assert one.sees.image_size == cfg["input_size"][1:] == (176, 176)
    assert (one.sees.mean, one.sees.std) == (cfg["mean"], cfg["std"])
    assert one.facts["weights_hash"] == other.facts["weights_hash"]
    assert not one.model.training
    assert not any(weight.requires_grad for weight in one.model.parameters())
    nothing = one.logits(torch.zeros(0, 3, 12, 20, dtype=torch.float64))
    assert nothing.shape == (0, 7)


def test_the_hash_of_weights_sees_values_and_names():
    model = create_model("mu", 5)
    before = weights_hash(model)
    with torch.no_grad():
        model.head.bias[3] += 1e-7
    moved = weights_hash(model)
    assert len({before, moved, weights_hash(torch.nn.Sequential(model))}) == 3


def test_the_first_step_has_the_loss_of_the_formula_on_mixed_images(
    taught: Protocol, tmp_path: Path
):
    """By hand: student and teacher made anew, plain cross-entropies in a loop over samples."""
    mixed = replace(taught, epochs=1, cutmix=None, mixup=Mixup(probability=1.0))
    dataset = load_dataset(taught.data, tmp_path)
    labels = torch.from_numpy(dataset.train.labels.astype("int64"))
    train, _ = stratified_split(dataset.train.labels, 0.2, 0)
    samples = Samples(dataset.train.images, labels, torch.from_numpy(train), 3)
    ours, whole = InputTransform(dataset.mean, dataset.std, (16, 16)), World(CPU)
    batch = next(
        epoch_batches(samples, ours, protocol=mixed, seed=0, epoch=1, first_step=0, world=whole)
    )
    teacher = timm.create_model("resnet10t", num_classes=3).eval().requires_grad_(False)
    teacher_images = []
    for image in batch.images.clone():
        for channel in range(3):
            pixels = image[channel] * dataset.std[channel] + dataset.mean[channel]
            mean, std = (teacher.pretrained_cfg[key][channel] for key in ("mean", "std"))
            image[channel] = (pixels - mean) / std
        teacher_images.append(F.interpolate(image[None], (32, 32), mode="bicubic", antialias=True))
    teacher.fc.bias -= teacher(torch.cat(teacher_images)).mean(0)  # else one answer for all
    save_file(teacher.state_dict(), tmp_path / "teacher.safetensors")
    choices = [teacher(image).argmax(-1) for image in teacher_images]
    assert len({choice.item() for choice in choices}) > 1

    torch.manual_seed(0)
    student = create_model("mu", 3, 16, distilled=True)
    student.set_distilled_training()
    of_class, of_teacher = (x.detach() for x in student(batch.images))
    expected = 0.0
    for index, choice in enumerate(choices):
        expected -= 0.75 * float((batch.targets[index] * of_class[index].log_softmax(-1)).sum())
        expected += 0.25 * float(F.cross_entropy(of_teacher[index, None], choice))
    weights = str(tmp_path / "teacher.safetensors")
    settings = Distillation(teacher="resnet10t", weights=weights, image_size=32, share=0.25)
    losses = _train(replace(mixed, distillation=settings), tmp_path / "run").losses
    assert batch.mixed
    assert losses[0] == pytest.approx(expected / len(choices), abs=1e-5)


def test_a_run_with_a_teacher_stopped_twice_ends_with_the_same_bytes(
    taught: Protocol, tmp_path: Path
):
    _train(taught, tmp_path / "whole")
    with pytest.raises(PowerCut):
        _train(taught, tmp_path / "run", Recorder(6, cut_power))
    with pytest.raises(Interrupted):
        _train(taught, tmp_path / "run", Recorder(3, terminate))
    notes = _train(taught, tmp_path / "run").notes
    assert any("taught by test_resnet" in note for note in notes)
    assert not any("not bit-exact" in note for note in notes)
    for name in (WEIGHTS, LOG):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_the_record_knows_the_teacher_and_checkpoints_hold_none_of_it(
    taught: Protocol, tmp_path: Path
):
    _train(replace(taught, epochs=1), tmp_path / "run")
    record, run = read_record(tmp_path / "run").contents(), load_run(tmp_path / "run")
    torch.manual_seed(0)
    again = timm.create_model("test_resnet", num_classes=3)
    assert record["teacher"]["weights_hash"] == weights_hash(again)
    assert (record["teacher"]["name"], record["teacher"]["image_size"]) == ("test_resnet", [32, 32])
    own = {f"{part}.{name}" for part in ("model", "best") for name in run.model.state_dict()}
    (newest,) = (tmp_path / "run/checkpoint").glob("*/tensors.safetensors")
    with safe_open(newest, "pt") as file:
        kept = {name for name in file.keys() if name[:10] != "optimizer."}  # noqa: SIM118
    assert kept == own
    assert record["model"]["num_parameters"] == sum(x.numel() for x in run.model.parameters())
    test = load_dataset(run.protocol.data, tmp_path).test
    tokens = run.model.forward_features(run.transform(torch.from_numpy(test.images.copy())))
    mean = (run.model.head(tokens[:, 0]) + run.model.head_dist(tokens[:, 1])) / 2
    accuracy = (mean.argmax(-1).numpy() == test.labels).mean()
    assert record["result"]["test_accuracy"] == pytest.approx(accuracy)


def test_only_the_share_0_makes_the_teacher_irrelevant(taught: Protocol, tmp_path: Path):
    """Two teachers that choose differently: one student with share 0, two with share 1."""
    for label in range(2):
        model = timm.create_model("test_resnet", num_classes=3)
        with torch.no_grad():
            model.fc.weight.zero_(), model.fc.bias.copy_(F.one_hot(torch.tensor(label), 3))
        save_file(model.state_dict(), tmp_path / f"{label}.safetensors")
    found = {}
    for share in (0.0, 1.0):
        for label in range(2):
            weights = str(tmp_path / f"{label}.safetensors")
            settings = replace(TINY, weights=weights, share=share)
            out = tmp_path / f"{share}-{label}"
            _train(replace(taught, epochs=1, distillation=settings), out)
            found[share, label] = load_run(out).model.state_dict()
    names = found[0.0, 0].keys()
    assert all(found[0.0, 0][name].equal(found[0.0, 1][name]) for name in names)
    bias = [found[1.0, label]["head_dist.bias"] for label in range(2)]
    assert [x.argmax().item() for x in bias] == [0, 1]


def test_other_teacher_weights_are_refused_when_a_run_goes_on(taught: Protocol, tmp_path: Path):
    path = tmp_path / "teacher.safetensors"
    save_file(timm.create_model("test_resnet", num_classes=3).state_dict(), path)
    settings = replace(TINY, weights=str(path))
    taught = replace(taught, distillation=settings)
    with pytest.raises(PowerCut):
        _train(taught, tmp_path / "run", Recorder(5, cut_power))
    save_file(timm.create_model("test_resnet", num_classes=3).state_dict(), path)
    with pytest.raises(
        UserError,
        match=r"/run .*\b\w{16}\b.*\b\w{16}\b",
    ):
        _train(taught, tmp_path / "run")


def test_a_run_can_teach_with_its_own_size_and_normalisation(
    small: Protocol, taught: Protocol, tmp_path: Path
):
    wide = ModelSettings(name="mu_vit", image_size=24)
    _train(replace(small, epochs=1, model=wide), tmp_path / "teacher")
    run = load_run(tmp_path / "teacher")
    images = load_dataset(small.data, tmp_path).test.images[:7]
    pixels = torch.from_numpy(images.copy())
    classes = run.record.data.classes
    for weights in (tmp_path / "teacher", tmp_path / "teacher" / WEIGHTS):
        settings = Distillation(teacher="mu", weights=str(weights))
        teacher = teacher_of(settings, replace(OURS, image_size=(16, 16)), 3, classes, CPU)
        assert (teacher.sees.image_size, teacher.sees.mean) == ((24, 24), run.transform.mean)
        seen = teacher.convert(replace(OURS, image_size=(16, 16))(pixels))
        torch.testing.assert_close(seen.float(), run.transform(pixels), atol=1e-5, rtol=1e-5)
    with pytest.raises(UserError, match=r"/teacher .*\bclasses\b.*\b3\b"):
        teacher_of(settings, OURS, 3, ["a", "b", "c"], CPU)
    with pytest.raises(UserError, match=r"\bnano_vit\b.*/teacher .*\bmu_vit\b"):
        teacher_of(replace(settings, teacher="nano"), OURS, 3, classes, CPU)
    with pytest.raises(UserError, match=r"\bstudent\b.*\b5 classes\b.*\bmu_vit\b.*\b3 classes\b"):
        teacher_of(settings, OURS, 5, classes, CPU)
    half = replace(taught, epochs=1, precision="bf16", distillation=settings)
    assert len(_train(half, tmp_path / "student").losses) == 4


@pytest.mark.parametrize(
    "student",
    [
        ModelSettings(name="deit_tiny_distilled_patch16_224", image_size=32),
        ModelSettings(name="mu_convit", distilled=True),
    ],
    ids=["timm", "convit"],
)
def test_other_distilled_models_are_students_too(
    taught: Protocol, tmp_path: Path, student: ModelSettings
):
    once = replace(taught, model=student, epochs=1, batch_size=50)
    assert len(_train(once, tmp_path / "run").losses) == 2
    assert read_record(tmp_path / "run").model.num_prefix == 2


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"teacher": "resnet10"}, r"'resnet10'.*\bmean resnet10t\b"),
        ({"teacher": "nano"}, r"\bnano_vit\b.*'random'.*\bdistillation\.weights\b"),
        ({"weights": "none.safetensors"}, "test_resnet of 3 classes: there is no file .*none"),
        ({"weights": "five"}, r"3 classes: weights in .* fc\.weight \[5, .* instead of \[3, "),
        (
            {"teacher": "resnet10t", "weights": "five"},
            r"resnet10t of 3 classes: .* unexpected layer3",
        ),
        (
            {"teacher": "vit_tiny_patch16_224", "image_size": 9},
            r"\bvit_tiny_patch16_224\b.*\b9x9\b",
        ),
    ],
)
def test_a_teacher_that_cannot_teach_is_refused_in_one_sentence(
    taught: Protocol, tmp_path: Path, change: dict, sentence: str
):
    if change.get("weights") == "five":
        change = {**change, "weights": str(tmp_path / "five.safetensors")}
        save_file(timm.create_model("test_resnet", num_classes=5).state_dict(), change["weights"])
    with pytest.raises(UserError, match=sentence) as refused:
        _train(replace(taught, distillation=replace(TINY, **change)), tmp_path / "run")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["mu_vit", "vit_tiny_patch16_224"])
def test_a_student_without_the_token_is_refused(taught: Protocol, tmp_path: Path, name: str):
    with pytest.raises(UserError, match=rf"^{name} .*--set model\.distilled=true"):
        _train(replace(taught, model=ModelSettings(name=name)), tmp_path / "run")


def test_pretrained_weights_without_a_network_are_refused_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
):
    def fails(*_: object, **__: object) -> None:
        raise OSError("no route")

    monkeypatch.setattr("nearsight.train.objectives.distill.build_model", fails)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    settings = Distillation(weights="pretrained")
    with pytest.raises(UserError, match=r"\bregnety_160\b.*\bdistillation\.weights\b"):
        teacher_of(settings, OURS, 7, "abcdefg", CPU)
