"""Distil: a teacher classifies the student's images, and the student learns from its answers.

Hard (Touvron et al. 2021, arXiv 2012.12877), with a distillation token:
loss = (1 - share) CE(class head, targets) + share CE(distillation head, argmax of the teacher)

Soft (Hinton et al. 2015, arXiv 1503.02531), for any model; LocAt trains Jumbo this way:
loss = (1 - share) CE(logits, targets) + share T^2 KL(softmax(teacher / T) || softmax(logits / T))
The factor T^2 keeps the size of the gradient independent of the temperature. A model with a
distillation token learns from the teacher with that token's head.

The teacher sees the same images as the student, including mixed and erased ones. Where we differ
from both papers: the images are converted to the teacher's own size and normalisation, which may
differ from the student's. The teacher is in evaluation mode and is not trained. Every process has
the whole teacher, and no checkpoint contains it; run.json has the hash of its weights.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.data.input import InputTransform
from nearsight.models.load import (
    INITIAL_SEED,
    build_model,
    check_name,
    from_hub,
    load_weights,
    own_preprocessing,
    split_name,
)
from nearsight.models.zoo import full_name
from nearsight.protocol import Distillation
from nearsight.runs import RECORD, load_run
from nearsight.train.batches import Batch
from nearsight.train.objectives.labels import Labels, soft_cross_entropy, step_loss
from nearsight.train.objectives.objective import StepLoss
from nearsight.train.state import Counters

LIBRARIES = ("timm", "torchvision")


class Distilled(Labels):
    """Learn the labels and follow a teacher that was trained before."""

    def __post_init__(self) -> None:
        given, settings = self.setting, self.setting.protocol.distillation
        assert settings is not None
        self.settings = settings
        if settings.kind == "hard" or getattr(self.model, "head_dist", None) is not None:
            answer_with_both_heads(self.model, given.protocol.model.name)
        super().__post_init__()
        self.teacher = teacher_of(
            settings, given.transform, given.train.num_classes, given.classes, given.world.device
        )

    @property
    def teacher_facts(self) -> dict[str, Any]:
        """Return what run.json records of the teacher."""
        return self.teacher.facts

    @property
    def notes(self) -> tuple[str, ...]:
        """Return a sentence about the teacher."""
        return (self.teacher.note(),)

    def losses(self, batch: Batch, at: Counters) -> StepLoss:
        """Return the loss of every sample; with two heads, their mean logits classify."""
        settings = self.settings
        taught = self.teacher.logits(batch.images)
        answer = self.called(batch.images)
        of_class, of_teacher = (answer, answer) if isinstance(answer, Tensor) else answer
        if settings.kind == "soft":
            learned = soft_cross_entropy(of_class, batch.targets)
            followed = soft_distillation(of_teacher, taught, settings.temperature)
            found = (1 - settings.share) * learned + settings.share * followed
        else:
            choices = taught.argmax(-1)
            found = distillation_loss(of_class, of_teacher, batch.targets, choices, settings.share)
        logits = of_class if isinstance(answer, Tensor) else (of_class + of_teacher) / 2
        return step_loss(found, logits, batch)


@dataclass(frozen=True)
class Teacher:
    """A model that classifies every image of the student."""

    model: nn.Module
    sees: InputTransform  # the teacher's size and normalisation
    student: InputTransform  # the student's, which the images already have
    facts: dict[str, Any]  # for run.json
    num_classes: int

    @torch.no_grad()
    def logits(self, images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n cls"]:
        """Return the teacher's logits for the student's images."""
        if not len(images):  # a process without a share of the last batch
            return images.new_empty(0, self.num_classes)
        return self.model(self.convert(images))

    def convert(self, images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n 3 rows cols"]:
        """Convert the student's images to the teacher's size and normalisation."""
        mine, theirs = (
            torch.tensor([x.mean, x.std], dtype=images.dtype, device=images.device)[..., None, None]
            for x in (self.sees, self.student)
        )
        gain, shift = theirs[1] / mine[1], (theirs[0] - mine[0]) / mine[1]
        return self.sees.resize(images * gain + shift)

    def note(self) -> str:
        """Return a line about the teacher for the person who starts the run."""
        rows, cols = self.sees.image_size
        return (
            f"taught by {self.facts['name']} ({self.facts['num_parameters'] / 1e6:.2f} M "
            f"parameters, weights: {self.facts['weights']}) on images of {rows}x{cols} pixels"
        )


def teacher_of(
    settings: Distillation,
    student: InputTransform,
    num_classes: int,
    classes: Sequence[str],
    device: torch.device,
) -> Teacher:
    """Load the teacher of a protocol.

    Args:
        settings: The distillation settings of the protocol.
        student: The size and the normalisation of the student's images.
        num_classes: The number of classes of the student.
        classes: The names of the classes. A teacher that was trained here must have the same.
        device: The device on which the teacher runs.

    Raises:
        UserError: If the teacher cannot be loaded or has other classes.
    """
    name = full_name(settings.teacher)
    folder = _run_folder(settings.weights)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(INITIAL_SEED)
        if folder is None:
            model, sees = _from_library(name, settings, num_classes)
        else:
            model, sees = _from_run(name, folder, classes)
    size = (settings.image_size,) * 2 if settings.image_size else sees.image_size
    sees = InputTransform(sees.mean, sees.std, size, student.dtype)
    facts = {
        "name": name,
        "weights": settings.weights,
        "weights_hash": weights_hash(model),
        "num_parameters": sum(parameter.numel() for parameter in model.parameters()),
        "image_size": list(size),
        "mean": list(sees.mean),
        "std": list(sees.std),
    }
    model = model.eval().requires_grad_(False).to(device, student.dtype)
    _check_answer(
        name, model, torch.zeros(1, 3, *size, dtype=student.dtype, device=device), num_classes
    )
    return Teacher(model, sees, student, facts, num_classes)


def answer_with_both_heads(student: nn.Module, name: str) -> None:
    """Make the student return the logits of both heads during training.

    Raises:
        UserError: If it has no distillation token.
    """
    if getattr(student, "head_dist", None) is None:
        raise UserError(
            f"{name} has no distillation token; add one to a model of nearsight with --set "
            "model.distilled=true, or choose a model of timm that has one, such as "
            "deit_tiny_distilled_patch16_224"
        )
    student.set_distilled_training(True)  # type: ignore[operator]


def weights_hash(model: nn.Module) -> str:
    """Return 16 hex digits of the sha256 over names, shapes and bytes of all weights."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()[:16]


def _run_folder(weights: str) -> Path | None:
    """Return the run folder of the weights, given its path or the path of the file in it."""
    for folder in (Path(weights), Path(weights).parent):
        if weights not in ("pretrained", "random") and (folder / RECORD).is_file():
            return folder
    return None


def _from_run(name: str, folder: Path, classes: Sequence[str]) -> tuple[nn.Module, InputTransform]:
    """Load a model that was trained here, with the size and normalisation of its run."""
    run = load_run(folder)
    if run.protocol.model.name != name:
        raise UserError(
            f"distillation.teacher is {name}, but {folder} is a run of {run.protocol.model.name}; "
            "make them agree"
        )
    if run.record.data.classes != list(classes):
        raise UserError(
            f"the teacher in {folder} was trained on other classes ({run.record.data.name}) than "
            f"the student's {len(classes)}; give a teacher that was trained on the same data"
        )
    return run.model, run.transform


def _from_library(
    name: str, settings: Distillation, num_classes: int
) -> tuple[nn.Module, InputTransform]:
    """Load a timm or torchvision model with the size and normalisation of its configuration."""
    source, own_name = split_name(name)
    if source not in LIBRARIES:
        raise UserError(
            f"the teacher {name} with weights {settings.weights!r} is neither a model of timm or "
            f"torchvision nor a run; give the run folder of {name} as distillation.weights"
        )
    check_name(name)
    size = (settings.image_size,) * 2 if settings.image_size else None
    if settings.weights == "pretrained":
        options = {"pretrained": True} if source == "timm" else {"weights": "DEFAULT"}
        with from_hub(name, "a file in distillation.weights"):
            model = build_model(name, size, **options)
    else:
        model = build_model(name, size, num_classes=num_classes)
        if settings.weights != "random":
            try:
                load_weights(model, Path(settings.weights), exact=True)
            except ValueError as error:
                raise UserError(f"the teacher {name} of {num_classes} classes: {error}") from error
    known = own_preprocessing(source, own_name, model)
    assert known.crop is not None
    return model, InputTransform(known.mean, known.std, known.crop)


def _check_answer(name: str, model: nn.Module, images: Tensor, num_classes: int) -> None:
    """Check that the teacher takes the images, and has as many classes as the student.

    Raises:
        UserError: If it does not.
    """
    with torch.no_grad():
        try:
            answer = model(images)
        except (AssertionError, RuntimeError) as error:
            rows, cols = images.shape[-2:]
            raise UserError(
                f"the teacher {name} does not take images of {rows}x{cols} pixels ({error}); set "
                "distillation.image_size to a size that it takes"
            ) from error
    shape = list(answer.shape) if isinstance(answer, Tensor) else type(answer).__name__
    if shape != [1, num_classes]:
        got = f"{shape[1]} classes" if isinstance(shape, list) and len(shape) == 2 else f"{shape}"
        raise UserError(
            f"the student has {num_classes} classes, but the teacher {name} has {got}; choose "
            "another teacher or other data"
        )


def soft_distillation(
    logits: Float[Tensor, "n cls"], taught: Float[Tensor, "n cls"], temperature: float
) -> Float[Tensor, " n"]:
    """Return T^2 KL(softmax(taught / T) || softmax(logits / T)) of every sample, in nats.

    It is 0 if the two agree, and has no upper limit: it grows as the student gives less probability
    to a class that the teacher finds likely.

    >>> even, sure = torch.zeros(1, 4), torch.tensor([[50.0, 0.0, 0.0, 0.0]])
    >>> soft_distillation(even, sure, 1.0).exp().item()
    4.0
    >>> soft_distillation(sure, sure, 3.0).item()
    0.0
    """
    kind = torch.float64 if logits.dtype == torch.float64 else torch.float32
    ours, theirs = ((x.to(kind) / temperature).log_softmax(-1) for x in (logits, taught))
    return temperature**2 * (theirs.exp() * (theirs - ours)).sum(-1)


def distillation_loss(
    of_class: Float[Tensor, "n cls"],
    of_teacher: Float[Tensor, "n cls"],
    targets: Float[Tensor, "n cls"],
    choices: Int64[Tensor, " n"],
    share: float,
) -> Float[Tensor, " n"]:
    """Return (1 - share) CE(class head, targets) + share CE(distillation head, choices) per sample.

    Args:
        of_class: The logits of the class head.
        of_teacher: The logits of the distillation head.
        targets: The class probabilities to learn.
        choices: The class that the teacher chooses.
        share: The weight of the teacher. With 0 only the class head is trained, and with 1 only the
            distillation head.

    >>> even, sure = torch.zeros(1, 4), torch.tensor([[50.0, 0.0, 0.0, 0.0]])
    >>> distillation_loss(even, sure, torch.eye(4)[:1], torch.tensor([0]), 0.5).exp().item()
    2.0
    """
    hard = F.one_hot(choices, of_teacher.shape[-1])
    learned = soft_cross_entropy(of_class, targets)
    followed = soft_cross_entropy(of_teacher, hard.to(targets.dtype))
    return (1 - share) * learned + share * followed
