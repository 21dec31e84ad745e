"""Define ``Protocol``: every setting that decides the numbers of a run, except its seed.

The dataclasses are frozen and validated; ``dataclasses.replace`` makes a variant and validates it
again. A group of settings that is ``None`` is switched off.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Annotated, Literal, get_args, get_type_hints

from pydantic import Field

from nearsight.protocol.gpsa_settings import GpsaSettings
from nearsight.protocol.locat_settings import LocatSettings
from nearsight.protocol.validation import (
    MOST,
    Amount,
    Count,
    CountOrZero,
    Fraction,
    Name,
    Positive,
    Probability,
    Seed,
    dataclass,
)

Schedule = Literal["cosine", "triangular", "constant", "step"]


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """The data set, and how its official training set is split into train and validation images."""

    name: str = "cifar100"
    image_size: Count | None = None  # pixels; image folders are resized to it when decoded
    fraction: Annotated[float, Field(gt=0, le=1)] = 1.0  # of every class, taken before the split
    validation_fraction: Fraction = 0.2
    split_seed: Seed = 0
    skip_corrupt: bool = False
    classes: Annotated[int, Field(ge=2, le=MOST)] | None = None  # use only the first N classes
    decoded: bool | None = None  # keep a decoded copy; None: if there are at most 200,000 images


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """The model and its sizes; what is None is decided by the data set or by the model."""

    name: str = "compact_vit"
    image_size: Count | None = None  # pixels of the model's input
    patch_size: Count | None = None
    depth: Count | None = None  # number of layers; only for our own models
    width: Count | None = None  # only for our own models; their MLP is twice as wide
    num_heads: Count | None = None
    num_registers: CountOrZero = 0
    locat: LocatSettings | None = None  # None: the model's name decides
    gpsa: GpsaSettings | None = None  # None: the model's name decides
    distilled: bool = False  # add a distillation token with a head of its own
    drop_path: Annotated[float, Field(ge=0, lt=1)] = 0.0  # rate at the last block, linear in depth
    pool: Literal["token", "avg"] | None = None  # the head reads [CLS], or the mean of the patches
    positions: bool = True  # learnable positional embeddings
    num_classes: Count | None = None  # outputs of the head; at least the classes of the data
    weights: str | None = None  # a safetensors file to start from


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """The settings of AdamW and its learning rate."""

    lr: Positive = 3e-4
    weight_decay: Amount = 0.05
    betas: tuple[Probability, Probability] = (0.9, 0.999)
    eps: Positive = 1e-8
    decayed: Literal["all", "matrices", "not-vectors"] = "all"  # see train/optim.py
    warmup_lr: Amount = 0.0  # the rate that warm-up starts from
    final_lr: Amount = 0.0  # the rate that the schedule ends at; constant ignores it
    clip_norm: Positive | None = None
    schedule: Schedule = "cosine"  # after the warm-up; triangular is a straight line down
    step_epochs: Positive = 30.0  # for schedule "step": epochs between two reductions
    step_factor: Annotated[float, Field(gt=0, le=1)] = 0.1  # for "step": factor of a reduction
    final_weight_decay: Amount | None = None  # reached by half a cosine; None: it stays the same
    clipped: Literal["all", "each"] = "all"  # clip the whole gradient, or that of each weight


@dataclass(frozen=True, kw_only=True)
class AutoAugment:
    """The learned policy of Cubuk et al. 2019 for CIFAR-10: 25 sub-policies of two operations."""

    policy: Literal["cifar10"] = "cifar10"


@dataclass(frozen=True, kw_only=True)
class RandAugment:
    """Apply ``num_ops`` random operations of magnitude 0..10 (Cubuk et al. 2020)."""

    num_ops: Count = 2
    magnitude: Annotated[float, Field(ge=0, le=10)] = 9.0
    magnitude_std: Amount = 0.5


@dataclass(frozen=True, kw_only=True)
class ColorJitter:
    """Scale brightness, contrast, saturation by 1 - x .. 1 + x and turn the hue by -x .. x."""

    brightness: Amount = 0.4
    contrast: Amount = 0.4
    saturation: Amount = 0.4
    hue: Annotated[float, Field(ge=0, le=0.5)] = 0.1
    probability: Probability = 1.0


@dataclass(frozen=True, kw_only=True)
class Greyscale:
    """Replace the colours of an image by its luminance."""

    probability: Probability = 0.2


@dataclass(frozen=True, kw_only=True)
class Blur:
    """Blur with a Gaussian whose standard deviation is uniform between two numbers of pixels."""

    probability: Probability = 0.5
    min_sigma: Amount = 0.1
    max_sigma: Amount = 2.0


@dataclass(frozen=True, kw_only=True)
class Solarize:
    """Invert the values at or above a threshold."""

    probability: Probability = 0.2
    threshold: Annotated[int, Field(ge=0, le=256)] = 128


@dataclass(frozen=True, kw_only=True)
class RandomErasing:
    """Fill a rectangle with random pixels (Zhong et al. 2020)."""

    probability: Probability = 0.25
    min_area: Probability = 0.02
    max_area: Probability = 1 / 3
    min_aspect: Positive = 0.3  # and at most its inverse


@dataclass(frozen=True, kw_only=True)
class CutMix:
    """Paste a part of another image (Yun et al. 2019); its area is from Beta(alpha, alpha)."""

    probability: Probability = 0.5
    alpha: Positive = 1.0
    mix_labels: bool = True


@dataclass(frozen=True, kw_only=True)
class Mixup:
    """Blend with another image (Zhang et al. 2018); the ratio is from Beta(alpha, alpha)."""

    probability: Probability = 0.5
    alpha: Positive = 0.8


@dataclass(frozen=True, kw_only=True)
class CutOut:
    """Fill a square of ``size`` pixels with the mean colour (DeVries & Taylor 2017)."""

    probability: Probability = 1.0
    size: Count = 16


@dataclass(frozen=True, kw_only=True)
class ResizedCrop:
    """Crop a random part of the image and enlarge it, instead of padding and cropping the image."""

    min_area: Probability = 0.08
    max_area: Probability = 1.0
    min_aspect: Positive = 0.75  # and at most its inverse


@dataclass(frozen=True, kw_only=True)
class Distillation:
    """Learn from a teacher besides the labels (Touvron et al. 2021; Hinton et al. 2015).

    With hard distillation, a second head learns the class that the teacher predicts. With soft
    distillation, the logits learn the teacher's probabilities at a temperature; in a model with two
    heads, these are the logits of the second.
    """

    teacher: str = "regnety_160"  # the name of a timm model
    weights: str  # a file, a run folder, "pretrained" (from the hub) or "random" (for tests)
    image_size: Count | None = None  # pixels of the teacher's images; None: its own size
    share: Probability = 0.5  # weight of the teacher's term in the loss
    kind: Literal["hard", "soft"] = "hard"
    temperature: Positive = 1.0  # for soft distillation: divides the logits of both models


@dataclass(frozen=True, kw_only=True)
class View:
    """A kind of random crop that DINO takes of every image, and how the crop is augmented."""

    crop: ResizedCrop
    blur: Blur | None = None
    solarize: Solarize | None = None


@dataclass(frozen=True, kw_only=True)
class Dino:
    """Learn without labels: the student predicts the teacher's output for another crop of an image.

    Caron et al. 2021 (arXiv 2104.14294). The teacher is a moving average of the student. It sees
    the first and the second crop, which have the size of the model's input; the student sees all
    crops. Both have a projection head, and the loss is the cross-entropy between the softmax of
    their outputs.
    """

    first: View = View(crop=ResizedCrop(min_area=0.4), blur=Blur(probability=1.0))
    second: View = View(
        crop=ResizedCrop(min_area=0.4), blur=Blur(probability=0.1), solarize=Solarize()
    )
    local: View = View(crop=ResizedCrop(min_area=0.05, max_area=0.4), blur=Blur())
    num_local: CountOrZero = 8
    local_size: Count | None = None  # pixels; None: 3/7 of the model's size (96 of 224)
    head_layers: Count = 3  # linear maps before the last layer
    hidden: Count = 2048  # width between these maps
    bottleneck: Count = 256  # width before the last layer
    outputs: Count = 65_536
    frozen_epochs: CountOrZero = 1  # first epochs, in which the last layer is not trained
    student_temperature: Positive = 0.1
    teacher_temperature: Positive = 0.04
    first_teacher_temperature: Positive = 0.04  # at the start of its linear warm-up
    teacher_warmup_epochs: CountOrZero = 0
    centre_momentum: Probability = 0.9  # of the mean output that is subtracted from the teacher's
    teacher_momentum: Probability = 0.996  # at the start
    final_teacher_momentum: Probability = 1.0  # reached by half a cosine
    kept: Literal["teacher", "student"] = "teacher"  # whose weights are scored, measured and kept
    knn_every: Count = 1  # epochs between two scores by k-NN on validation images
    knn_neighbours: Count = 20
    knn_images: Count = 20_000  # search the neighbours among at most this many images


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """The settings of a training: everything that decides its numbers except the seed.

    Get one by name from ``preset`` and change it with ``dataclasses.replace``. A group of settings
    that is None is switched off.

    >>> from dataclasses import replace
    >>> from nearsight.protocol import preset
    >>> plain = replace(preset("modern"), name="modern, no CutMix", cutmix=None)
    >>> plain.cutmix is None, plain.label_smoothing
    (True, 0.1)
    """

    name: Name
    data: DataSettings = DataSettings()
    model: ModelSettings = ModelSettings()
    epochs: Count
    patience: Count | None  # epochs without a better validation accuracy; None: never stop
    warmup_epochs: Amount
    batch_size: Count
    optimizer: Optimizer = Optimizer()
    crop_padding: CountOrZero = 4
    resized_crop: ResizedCrop | None = None
    flip: bool = True
    autoaugment: AutoAugment | None = None
    randaugment: RandAugment | None = None
    colorjitter: ColorJitter | None = None
    greyscale: Greyscale | None = None
    blur: Blur | None = None
    solarize: Solarize | None = None
    random_erasing: RandomErasing | None = None
    cutmix: CutMix | None = None
    mixup: Mixup | None = None
    cutout: CutOut | None = None
    repeats: Count = 1  # how often a sample appears in an epoch, each time augmented differently
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    distillation: Distillation | None = None
    dino: Dino | None = None
    ema_decay: Fraction | None = None
    precision: Literal["float32", "bf16", "fp16", "float64"] = "float32"
    measure_every: Count | None = None  # epochs between two measurements of the attention
    measure_images: Annotated[int, Field(ge=2, le=MOST)] = 64  # validation images for each


def optional_parts(kind: type[Protocol] | None = None) -> tuple[str, ...]:
    """Return the names of the groups of settings that can be switched off with None.

    These are the augmentations, distillation and DINO. Studies and claims read this list, so a run
    with an augmentation that was added later never counts as a run without it.

    >>> optional_parts()[:3]
    ('resized_crop', 'autoaugment', 'randaugment')
    """
    kind = kind or Protocol
    hints = get_type_hints(kind)
    names = []
    for each in fields(kind):
        choices = get_args(hints[each.name])
        if type(None) in choices and any(is_dataclass(choice) for choice in choices):
            names.append(each.name)
    return tuple(names)
