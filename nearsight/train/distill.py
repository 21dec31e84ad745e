"""Hard distillation (Touvron et al. 2021, arXiv 2012.12877): a teacher chooses a class per image.

loss = (1 - share) CE(class head, targets) + share CE(distillation head, argmax of the teacher)

The teacher sees the very images that the student sees, mixed and erased ones too. Where we differ:
they are brought to its own size and normalisation, which the student need not share.
The teacher is in evaluation mode and learns nothing; every process has the whole of it, and no
checkpoint holds it; the hash of its weights is in run.json.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.data.input import InputTransform
from nearsight.models.load import (
    INITIAL_SEED,
    built,
    check_name,
    from_hub,
    load_weights,
    own_preprocessing,
    split_name,
)
from nearsight.models.zoo import full_name
from nearsight.protocol import Distillation
from nearsight.runs import RECORD, load_run

LIBRARIES = ("timm", "torchvision")


@dataclass(frozen=True)
class Teacher:
    """A model that chooses a class for every image of the student's."""

    model: nn.Module
    sees: InputTransform  # what its own images go through
    student: InputTransform  # what the student's images have gone through
    facts: dict[str, Any]  # for run.json

    @torch.no_grad()
    def choices(self, images: Float[Tensor, "n 3 h w"]) -> Int64[Tensor, " n"]:
        """Its class for each of the student's images."""
        if not len(images):  # a process without a share of the last batch
            return torch.empty(0, dtype=torch.int64, device=images.device)
        return self.model(self.converted(images)).argmax(-1)

    def converted(self, images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n 3 rows cols"]:
        """The student's images in the teacher's size and normalisation."""
        mine, theirs = (
            torch.tensor([x.mean, x.std], dtype=images.dtype, device=images.device)[..., None, None]
            for x in (self.sees, self.student)
        )
        gain, shift = theirs[1] / mine[1], (theirs[0] - mine[0]) / mine[1]
        return self.sees.resized(images * gain + shift)

    def note(self) -> str:
        """A line for the person who starts the run."""
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
    """The teacher of a protocol, for a student with ``num_classes`` outputs for these classes."""
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
    return Teacher(model, sees, student, facts)


def answer_with_both_heads(student: nn.Module, name: str) -> None:
    """Have the student return the logits of both heads while it trains."""
    if getattr(student, "head_dist", None) is None:
        raise UserError(
            f"expected a student with a distillation token, got {name}; --set model.distilled=true "
            "gives one to our models, timm's have names such as deit_tiny_distilled_patch16_224"
        )
    student.set_distilled_training(True)  # type: ignore[operator]


def weights_hash(model: nn.Module) -> str:
    """sha256 over names, shapes and bytes of all weights, the first 16 digits."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()[:16]


def _run_folder(weights: str) -> Path | None:
    """The run that these weights are of, by its folder or by the file in it."""
    for folder in (Path(weights), Path(weights).parent):
        if weights not in ("pretrained", "random") and (folder / RECORD).is_file():
            return folder
    return None


def _from_run(name: str, folder: Path, classes: Sequence[str]) -> tuple[nn.Module, InputTransform]:
    """A model that was trained here, with the size and normalisation of its own run."""
    run = load_run(folder)
    if run.protocol.model.name != name:
        raise UserError(
            f"expected a run of the teacher {name} in {folder}, got one of "
            f"{run.protocol.model.name}"
        )
    if run.record.data.classes != list(classes):
        raise UserError(
            f"expected a teacher of the student's {len(classes)} classes, got {folder}, trained "
            f"on other ones ({run.record.data.name})"
        )
    return run.model, run.transform


def _from_library(
    name: str, settings: Distillation, num_classes: int
) -> tuple[nn.Module, InputTransform]:
    """A model of timm or torchvision with the size and normalisation of its configuration."""
    source, own_name = split_name(name)
    if source not in LIBRARIES:
        raise UserError(
            f"expected a teacher of timm or torchvision, or a run folder of {name} as "
            f"distillation.weights, got {name} with {settings.weights!r}"
        )
    check_name(name)
    size = (settings.image_size,) * 2 if settings.image_size else None
    if settings.weights == "pretrained":
        options = {"pretrained": True} if source == "timm" else {"weights": "DEFAULT"}
        with from_hub(name, "a file in distillation.weights"):
            model = built(name, size, **options)
    else:
        model = built(name, size, num_classes=num_classes)
        if settings.weights != "random":
            try:
                load_weights(model, Path(settings.weights), exact=True)
            except ValueError as error:
                raise UserError(f"the teacher {name} of {num_classes} classes: {error}") from error
    known = own_preprocessing(source, own_name, model)
    assert known.crop is not None
    return model, InputTransform(known.mean, known.std, known.crop)


def _check_answer(name: str, model: nn.Module, images: Tensor, num_classes: int) -> None:
    """UserError unless the teacher answers with as many classes as the student."""
    with torch.no_grad():
        try:
            answer = model(images)
        except (AssertionError, RuntimeError) as error:
            rows, cols = images.shape[-2:]
            raise UserError(
                f"the teacher {name} does not take images of {rows}x{cols} pixels: {error}"
            ) from error
    shape = list(answer.shape) if isinstance(answer, Tensor) else type(answer).__name__
    if shape != [1, num_classes]:
        got = f"{shape[1]} classes" if isinstance(shape, list) and len(shape) == 2 else f"{shape}"
        raise UserError(
            f"expected a teacher of {num_classes} classes like the student, got {got} from {name}"
        )
