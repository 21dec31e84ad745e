"""Build a model by name with its weights and its own preprocessing, ready to be measured."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from nearsight.core import UserError
from nearsight.data.input import Preprocessing
from nearsight.models.compat import declare_missing_ops
from nearsight.models.load.hub import from_hub
from nearsight.models.load.registry import OURS, check_name, create_model, split_name
from nearsight.models.load.weights import load_weights
from nearsight.models.zoo import ARCHITECTURES

INITIAL_SEED = 0  # seed of random initialisation

Weights = Literal["file", "pretrained", "random initialisation"]


@dataclass(frozen=True)
class NamedModel:
    """A model in evaluation mode, with the origin of its weights and its preprocessing."""

    name: str
    source: str  # nearsight, timm, torchvision or hf
    model: nn.Module
    weights: Weights
    preprocessing: Preprocessing
    notes: tuple[str, ...] = ()  # sentences about changes that made the weights fit

    @property
    def num_parameters(self) -> int:
        """The number of parameters."""
        return sum(parameter.numel() for parameter in self.model.parameters())


def named_model(
    name: str,
    weights: Path | None = None,
    pretrained: bool = False,
    random_init: bool = False,
    image_size: tuple[int, int] | None = None,
) -> NamedModel:
    """Build a model by name and load the requested weights.

    Args:
        name: Name of the model, as for ``create_model``.
        weights: A file of weights.
        pretrained: Load the library's pretrained weights. This is the default for models of
            ``hf/``.
        random_init: Keep random weights.
        image_size: Height and width that the model is built for and its images are resized to; by
            default the model's own. Models of ``hf/`` are always built as their configuration says.
            Some of them accept images of other sizes.

    Raises:
        UserError: If there is no such model, or not exactly one kind of weights is requested.
    """
    source, own_name = split_name(name)
    check_name(name)
    kinds = [("--weights", weights), ("--pretrained", pretrained), ("--random-init", random_init)]
    asked = [option for option, given in kinds if given]
    if len(asked) > 1:
        raise UserError(f"{' and '.join(asked)} exclude each other; give one of them")
    if not asked and source != "hf":
        raise UserError(
            f"no weights are given for {name}; give --weights FILE or --pretrained, or "
            "--random-init to measure it before any training"
        )
    notes: list[str] = []
    if pretrained or not asked:
        kind: Weights = "pretrained"
        model = _pretrained(source, name, own_name, image_size)
    else:
        kind = "file" if weights else "random initialisation"
        keeps_grid = name in ARCHITECTURES  # GAug depends on the grid that it was trained on
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(INITIAL_SEED)
            model = build_model(name, None if source == "hf" or keeps_grid else image_size)
        if weights:
            notes = load_weights(model, weights)
        if keeps_grid and image_size is not None:
            model.set_input_size(img_size=image_size)  # type: ignore[operator]
    preprocessing = own_preprocessing(source, own_name, model)
    if weights and preprocessing.doubt is None:
        doubt = f"{weights.name} does not say how its images were prepared"
        preprocessing = replace(preprocessing, doubt=doubt)
    if image_size is not None:
        preprocessing = preprocessing.of_size(image_size)
    return NamedModel(name, source, model.eval(), kind, preprocessing, tuple(notes))


def build_model(name: str, image_size: tuple[int, int] | None, **options: Any) -> nn.Module:
    """Build a model for images of this size, or of its own size if its class has no such option.

    Args:
        name: Name of the model, as for ``create_model``.
        image_size: Height and width; None for the model's own.
        **options: Further options of ``create_model``.
    """
    try:
        return create_model(name, image_size=image_size, **options)
    except ValueError as error:
        if image_size is None or not isinstance(error.__cause__, TypeError):
            raise
        return create_model(name, **options)


built = build_model  # the old name, kept for one version


def _pretrained(
    source: str, name: str, own_name: str, image_size: tuple[int, int] | None
) -> nn.Module:
    """Build a model with the pretrained weights of its library."""
    if source == OURS:
        raise UserError(
            f"{own_name} has no weights on a hub; give --weights FILE, or train the model first"
        )
    if source == "hf":
        from nearsight.models.load.huggingface import pretrained_model

        return pretrained_model(own_name)
    with from_hub(own_name):
        if source == "torchvision":
            return create_model(name, weights="DEFAULT")
        return build_model(name, image_size, pretrained=True)


def own_image_size(model: nn.Module) -> tuple[int, int]:
    """Return the height and width, in pixels, of the images that a model declares it takes.

    Raises:
        UserError: If it declares none.
    """
    facts = getattr(model, "pretrained_cfg", None)
    of_embedding = getattr(getattr(model, "patch_embed", None), "img_size", None)  # timm's current
    configured = getattr(getattr(model, "config", None), "image_size", None)  # Hugging Face's
    of_timm = facts.get("input_size") if facts else None  # timm's default
    own = getattr(model, "image_size", None)
    for size in (own, of_embedding, of_timm and of_timm[1:], configured):
        if isinstance(size, int):
            return size, size
        if isinstance(size, (tuple, list)):
            return size[0], size[1]
    raise UserError(
        f"{type(model).__name__} does not declare its image size; give image_size=(height, width)"
    )


def own_preprocessing(source: str, name: str, model: nn.Module) -> Preprocessing:
    """Return the preprocessing that the model's own library uses."""
    if source == OURS:
        size: Any = model.image_size
        return Preprocessing(
            "ImageNet's mean and deviation", size, size, doubt=f"{name} has none of its own"
        )
    if source == "hf":
        from nearsight.models.load.huggingface import preprocessing_of

        return preprocessing_of(name, model)
    declare_missing_ops()
    return _of_torchvision(name, model) if source == "torchvision" else _of_timm(model)


def _of_timm(model: nn.Module) -> Preprocessing:
    """Return the preprocessing in timm's configuration of a model."""
    from timm.data import resolve_model_data_config

    facts = resolve_model_data_config(model)
    mode = facts["crop_mode"]
    source = "timm's configuration"
    if mode == "border":
        source += ", with a centre crop in place of its borders"
    return Preprocessing.from_crop_share(
        source,
        tuple(facts["input_size"][1:]),
        facts["crop_pct"],
        keep_ratio=mode != "squash",
        interpolation=facts["interpolation"],
        mean=tuple(facts["mean"]),
        std=tuple(facts["std"]),
    )


def _of_torchvision(name: str, model: nn.Module) -> Preprocessing:
    """Return the preprocessing of torchvision's default weights of a model."""
    from torchvision.models import get_model_weights

    steps = get_model_weights(name).DEFAULT.transforms()
    crop, resize = steps.crop_size[0], steps.resize_size[0]
    own: Any = getattr(model, "image_size", crop)
    preprocessing = Preprocessing(
        "torchvision's transforms of the default weights",
        (resize, resize),
        (crop, crop),
        interpolation=steps.interpolation.value,
        mean=tuple(steps.mean),
        std=tuple(steps.std),
    )
    return preprocessing if own == crop else preprocessing.of_size((own, own))
