"""Open the model to evaluate, given as a run, a name or a module, with its preprocessing."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from nearsight.core import UserError
from nearsight.data.input import IMAGENET_MEAN, IMAGENET_STD, Colour, Preprocessing
from nearsight.evaluate.features.taps import Extractor, Tapped
from nearsight.measure.folders import check_fit
from nearsight.measure.localise import Locality, localise
from nearsight.models.load import named_model, own_image_size
from nearsight.protocol import UNTRAINED
from nearsight.runs import RECORD, load_run


@dataclass(frozen=True)
class Subject:
    """A source of features, and how to prepare images for it: a model or a control.

    Args:
        name: Its name in tables.
        extractor: Computes the features.
        identity: Equal for two subjects only if they give the same features for the same images.
        size: Height and width of its images in pixels.
        mean: The mean by which its images are normalised, where white is 1.
        std: The standard deviation by which its images are normalised.
        classify: How an image is resized to ``size`` for classification. None ignores its aspect
            ratio.
        model: The model itself; a control without one has None.
        locality: How the model's attention was made local, if it was.
        fresh: Builds the same architecture with random weights.
        control: The name of the control, if it is one.
        folder: The run folder, if it is a run.
        data: The data set that it was trained on, if it is a run.
        statistics: Where ``mean`` and ``std`` come from, in words.
        notes: What was changed so that its weights fit.
    """

    name: str
    extractor: Extractor
    identity: str
    size: tuple[int, int]
    mean: Colour
    std: Colour
    classify: Preprocessing | None = None
    model: nn.Module | None = None
    locality: Locality | None = None
    fresh: Callable[[], Subject] | None = None
    control: str | None = None
    folder: Path | None = None
    data: str | None = None
    statistics: str = "the model's own"
    notes: tuple[str, ...] = ()


def model_identity(model: nn.Module) -> str:
    """Return the first 16 digits of a hash of a model's weights and modules."""
    digest = hashlib.sha256(repr(model).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        plain = tensor.detach().cpu().contiguous()
        digest.update(plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b"")
    return digest.hexdigest()[:16]


def open_subject(
    target: str,
    *,
    weights: Path | None = None,
    pretrained: bool = False,
    random_init: bool = False,
    image_size: tuple[int, int] | None = None,
    device: str = "cpu",
    locality: Locality | None = None,
) -> Subject:
    """Open a run folder, or a model by name with its weights.

    Args:
        target: A folder of a trained run, or a name as for ``nearsight measure``.
        weights: A weight file, for a model given by name.
        pretrained: Download weights from the hub, for a model given by name.
        random_init: Use random weights, for a model given by name.
        image_size: Height and width in pixels; by default the model's own. Positions are
            interpolated and GAug's variance is scaled.
        device: The device on which the model runs.
        locality: Make the model's attention local first (see ``ns.localise``).

    Raises:
        UserError: If there is no such run or model, or it does not take this image size.
    """
    if (Path(target) / RECORD).is_file():
        if weights or pretrained or random_init:
            raise UserError(
                f"{target} is a run, which has its own weights; leave out --weights, --pretrained "
                "and --random-init"
            )
        return _run_subject(Path(target), image_size, device, locality)
    found = named_model(target, weights, pretrained, random_init, image_size)
    steps = found.preprocessing

    def fresh() -> Subject:
        drawn = open_subject(
            target, random_init=True, image_size=image_size, device=device, locality=locality
        )
        return replace(drawn, name=drawn.name.replace(UNTRAINED, ""))  # tables name the control

    size = steps.crop or image_size
    assert size is not None
    name = target + UNTRAINED * (found.weights == "random initialisation")
    subject = subject_of(found.model, name, steps, size, device, locality)
    return replace(subject, fresh=fresh, notes=found.notes)


def subject_of(
    model: nn.Module,
    name: str | None = None,
    preprocessing: Preprocessing | None = None,
    image_size: tuple[int, int] | None = None,
    device: str = "cpu",
    locality: Locality | None = None,
) -> Subject:
    """Make a subject to evaluate from a module.

    Args:
        model: A model that takes normalised images.
        name: Its name in tables. By default the name of its class.
        preprocessing: The preprocessing of its images. By default ImageNet's mean and deviation.
        image_size: Height and width. By default those of ``preprocessing``, or of the model.
        device: The device on which the model runs.
        locality: Make its attention local first.
    """
    name = name or type(model).__name__
    size = image_size or (preprocessing.crop if preprocessing else None) or own_image_size(model)
    steps = preprocessing or Preprocessing("ImageNet's mean and deviation", size, size)
    model = model.eval().to(device)
    if locality is not None:
        model = localise(model, locality, image_size=size)
    check_fit(model, size, name, device)
    return Subject(
        name=name if locality is None else f"{name} {locality}",
        extractor=Tapped(model, size, device),
        identity=model_identity(model),
        size=size,
        mean=steps.mean,
        std=steps.std,
        classify=steps,
        model=model,
        locality=locality,
        fresh=lambda: _reset(model, name, steps, size, device),
    )


def _reset(
    model: nn.Module, name: str, steps: Preprocessing, size: tuple[int, int], device: str
) -> Subject:
    """Return a subject with random weights, by resetting the modules of a copy."""
    fresh: Any = copy.deepcopy(model)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if hasattr(fresh, "init_weights"):
            fresh.init_weights()
        else:
            for module in fresh.modules():
                if hasattr(module, "reset_parameters"):
                    module.reset_parameters()
    return subject_of(fresh, name, steps, size, device)


def _run_subject(
    folder: Path, image_size: tuple[int, int] | None, device: str, locality: Locality | None
) -> Subject:
    """Load the best weights of a trained run."""
    run = load_run(folder, device)
    model, size = run.model, run.transform.image_size
    if image_size is not None and image_size != size:
        if not hasattr(model, "set_input_size"):
            raise UserError(
                f"the model of {folder} accepts only images of {size[0]}x{size[1]} pixels; leave "
                "out --image-size"
            )
        model.set_input_size(img_size=image_size)  # type: ignore[operator]
        size = image_size
    steps = Preprocessing(
        "the training set's mean and deviation", size, size, keep_ratio=False,
        mean=run.transform.mean, std=run.transform.std,
    )  # fmt: skip

    def fresh() -> Subject:
        from nearsight.models.load import model_for

        record = run.record
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(record.seed)
            drawn, _ = model_for(
                run.protocol.model, record.model.num_classes, record.data.image_size
            )
        if size != run.transform.image_size:
            drawn.set_input_size(img_size=size)  # type: ignore[operator]
        return subject_of(drawn, folder.name, steps, size, device, locality)

    subject = subject_of(model, folder.name, steps, size, device, locality)
    return replace(
        subject, fresh=fresh, folder=folder, data=run.protocol.data.name,
        statistics="the training set's",
    )  # fmt: skip


def with_statistics(subject: Subject, name: str) -> Subject:
    """Return the subject with another mean and deviation: ``own``, ``imagenet`` or a method's.

    Raises:
        UserError: If the name is unknown.
    """
    known: dict[str, tuple[Colour, Colour, str]] = {
        "own": (subject.mean, subject.std, subject.statistics),
        "imagenet": (IMAGENET_MEAN, IMAGENET_STD, "ImageNet's"),
        "open-hummingbird": (
            IMAGENET_MEAN, (0.229, 0.224, 0.255), "ImageNet's with a deviation of blue of 0.255",
        ),
    }  # fmt: skip
    if name not in known:
        raise UserError(f"--statistics is {name!r}, but it must be one of {', '.join(known)}")
    mean, std, words = known[name]
    return replace(subject, mean=mean, std=std, statistics=words)
