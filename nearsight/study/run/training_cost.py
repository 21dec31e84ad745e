"""Count the operations of a study on its built models, before anything is run.

A training image costs three forward passes (the forward pass, and the backward pass through weights
and through activations). A validation image, or an image seen by a teacher, costs one. All epochs
are counted, although early stopping may end a run before them. Measuring, evaluating and
augmentation are not counted. No data set is needed.

Time follows from a speed. The speed of this machine is measured on a small ViT; the speed of a GPU
is given by the user. It is the speed that training attains, about a third of the one in a data
sheet.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import torch
import torch.nn.functional as F

from nearsight.models.cost import model_cost
from nearsight.models.load import create_model, model_for
from nearsight.protocol import Dino, ModelSettings, Protocol
from nearsight.study.design import SCALES, THREADS, Recipe, Scale, Study

PASSES = 3  # forward passes that a training step costs for every image
GPU_TFLOPS = 100.0  # an A100 attains this when it trains in bf16
IMAGES = {  # training images, classes, side in pixels (of ImageNet and its parts, after resizing)
    "cifar10": (50_000, 10, 32), "cifar100": (50_000, 100, 32), "shapes": (12_000, 12, 32),
    "tiny-imagenet": (100_000, 200, 64), "imagenet": (1_281_167, 1000, 224),
    "imagenet-100": (129_395, 100, 224), "mini-imagenet": (50_000, 100, 224),
}  # fmt: skip
SPEED_MODEL, SPEED_BATCH, SPEED_SECONDS = "vit_tiny_patch16_224", 8, 2.0


@dataclass(frozen=True)
class StudyCost:
    """The cost of a study at one scale."""

    scale: Scale | None  # None: the recipe has only one
    num_cells: int
    operations: float  # floating-point operations of all cells

    def hours(self, operations_per_second: float) -> float:
        """Return the hours that all cells take one after another, at a given speed."""
        return self.operations / operations_per_second / 3600


def study_costs(recipe: Recipe, num_seeds: int | None = None) -> list[StudyCost]:
    """Return the cost of a recipe at each of its scales.

    A scale is left out if it uses a data set whose size is not known beforehand.
    """
    scales: Sequence[Scale | None] = SCALES if recipe.scales else (None,)
    studies = {scale: recipe.study(scale) for scale in scales}
    return [
        study_cost(study, scale, num_seeds)
        for scale, study in studies.items()
        if all(x.protocol.data.name in IMAGES for x in study.conditions)
    ]


def study_cost(study: Study, scale: Scale | None, num_seeds: int | None = None) -> StudyCost:
    """Return the cost of a study with its own number of seeds, or with another."""
    seeds = num_seeds or study.num_seeds
    operations = seeds * sum(training_operations(x.protocol) for x in study.conditions)
    return StudyCost(scale, seeds * len(study.conditions), operations)


def training_operations(protocol: Protocol) -> float:
    """Return the floating-point operations of one training.

    Training and validation images are counted in every epoch. A teacher costs a forward pass for
    every training image. With DINO, every view is counted, and so are the features of all images
    for its k-NN.
    """
    data = protocol.data
    num_images, num_classes, side = IMAGES[data.name]
    if data.classes is not None:
        num_images, num_classes = num_images * data.classes // num_classes, data.classes
    image_size = protocol.model.image_size or data.image_size or side
    forward = _forward(_settings_that_count(protocol.model), num_classes, image_size)
    seen = num_images * data.fraction * protocol.epochs
    train, validation = seen * (1 - data.validation_fraction), seen * data.validation_fraction
    if protocol.dino is not None:
        per_image = _views(protocol.dino, forward, image_size)
        return train * per_image + (train + validation) * forward / protocol.dino.knn_every
    teaching = protocol.distillation
    taught = 0.0
    if teaching is not None:
        taught = train * _forward(ModelSettings(name=teaching.teacher), num_classes, 224)
    return (PASSES * train + validation) * forward + taught


def _views(dino: Dino, forward: float, image_size: int) -> float:
    """Return the operations of DINO on one image: the student's views, and the teacher's two.

    A local view is assumed to cost its share of the pixels. The projection head is not counted.
    """
    local = dino.local_size or 3 * image_size // 7
    student = 2 + dino.num_local * (local / image_size) ** 2
    return (PASSES * student + 2) * forward


def training_speed(threads: int = THREADS) -> float:
    """Measure how many floating-point operations per second training attains in this process."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        model = create_model(SPEED_MODEL, 100)
        images = torch.zeros(SPEED_BATCH, 3, 224, 224)
        labels = torch.zeros(SPEED_BATCH, dtype=torch.int64)
        per_step = PASSES * SPEED_BATCH * _forward(ModelSettings(name=SPEED_MODEL), 100, 224)
        began, steps = time.perf_counter(), -1  # the first step warms caches up
        while steps < 1 or time.perf_counter() - began < SPEED_SECONDS:
            F.cross_entropy(model(images), labels).backward()
            steps += 1
            if steps == 0:
                began = time.perf_counter()
        return per_step * steps / (time.perf_counter() - began)
    finally:
        torch.set_num_threads(before)


def _settings_that_count(model: ModelSettings) -> ModelSettings:
    """Reset the settings that do not change the operations, so that fewer models are built."""
    gpsa = model.gpsa and replace(
        model.gpsa, strength=1.0, convolution=True, train_gates=True, train_attention=True
    )
    return replace(model, gpsa=gpsa, drop_path=0.0, positions=True, weights=None)


@cache
def _forward(model: ModelSettings, num_classes: int, image_size: int) -> float:
    """Return the floating-point operations of a forward pass of one image."""
    with torch.device("meta"):
        built, size = model_for(model, num_classes, (image_size, image_size))
    return float(model_cost(built, size).flops)
