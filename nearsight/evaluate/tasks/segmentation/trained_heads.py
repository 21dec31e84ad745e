"""Segment by a head that is trained on frozen features, usually at the cached scale.

The published settings train on random crops of 512 pixels, and every crop costs a forward pass of
the backbone. At the cached scale, the features of every training image are extracted once, plain
and mirrored, and the head is trained on these; the settings of every number say so. The number is
that of the last step. Where the authors evaluate several times on the validation images and keep
the best, that number stands beside it as ``compat``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import UInt8
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.evaluate.features import Features, Split, resize_labels
from nearsight.evaluate.solvers import (
    Batch,
    HeadRecipe,
    batch_norm_head,
    constant,
    dropout_head,
    head_seconds,
    mlp_head,
    one_cycle,
    plain_head,
    train_head,
    warm_cosine,
    warm_linear,
)
from nearsight.evaluate.tasks.segmentation.full_scale import (
    crop_batches,
    window_maps,
)
from nearsight.evaluate.tasks.segmentation.segmentation_scores import (
    Maps,
    Matrices,
    score_images,
    scoring_seconds,
    segmentation_findings,
)
from nearsight.evaluate.tasks.task import Bench, Method, TaskNumber, check_least
from nearsight.stats import miou, over_seeds

STEPS = 20_000
DETAIL = 2  # training uses this many times this many labels for a patch
OPTIONS = {"steps": 0, "seeds": 1, "scale": "cached"}  # 0 steps: as many as the recipe has
SCALES = ("cached", "full")
FULL_STEPS = {"locat": 20_000, "dinov2": 40_000, "dinov3": 40_000}
FRANCA = (100, 100)  # the size of features and labels in neco, also when it is scored
RECIPES = {
    "locat": HeadRecipe(mlp_head, 1e-3, 0.01, 32, STEPS, one_cycle),
    "dinov2": HeadRecipe(batch_norm_head, 1e-3, 1e-4, 16, STEPS, warm_linear),
    "dinov3": HeadRecipe(dropout_head, 1e-3, 1e-3, 16, STEPS, warm_cosine, num_evaluations=8),
    "neco": HeadRecipe(
        plain_head,
        0.01,
        0.0,
        128,
        0,
        constant,
        "sgd",
        epochs=20,
        resized=FRANCA,
        num_evaluations=20,
    ),
}


def cached_batches(bench: Bench, label_size: tuple[int, int]) -> Batch:
    """Return the function that gives the cached features and labels of some images."""
    plain = bench.features(bench.train)
    mirrored_features = bench.features(bench.train, mirrored=True)
    labels = training_labels(bench.train, label_size)
    grid = plain.grid

    def batch(chosen: list[int], mirrored: bool, step: int) -> tuple[Tensor, Tensor]:
        rows = sorted(chosen)
        source = (mirrored_features if mirrored else plain).patches
        features = torch.from_numpy(np.asarray(source[rows], np.float32))
        deep = features.unflatten(1, (grid.rows, grid.cols)).permute(0, 3, 1, 2).contiguous()
        truth = torch.from_numpy(labels[rows].astype(np.int64))
        return deep, truth.flip(-1) if mirrored else truth

    return batch


def training_labels(split: Split, size: tuple[int, int]) -> UInt8[np.ndarray, "image h w"]:
    """Return the masks of a split at one size."""
    return np.stack([resize_labels(split.mask(i), size) for i in range(len(split))])


def head_maps(head: nn.Module, features: Features, recipe: HeadRecipe) -> Maps:
    """Return the function that gives the logits of an image."""
    grid = features.grid

    @torch.no_grad()
    def logits(number: int) -> Tensor:
        patches = torch.from_numpy(np.asarray(features.patches[number], np.float32))
        deep = patches.T.unflatten(1, (grid.rows, grid.cols))[None].contiguous()
        if recipe.resized is not None:
            deep = F.interpolate(deep, recipe.resized, mode="bilinear", align_corners=False)
        found: Tensor = head(deep)[0]
        return found

    return logits


def check_options(options: Mapping[str, Any]) -> None:
    """Check the options ``steps``, ``seeds`` and ``scale``.

    Raises:
        UserError: If the scale is unknown, the steps are negative, or there is less than one seed.
    """
    check_least(options, steps=0, seeds=1)
    if options["scale"] not in SCALES:
        raise UserError(f"scale is {options['scale']!r}, but it must be {' or '.join(SCALES)}")


def is_full(bench: Bench) -> bool:
    """Tell whether the full scale is requested."""
    return bool(bench.options.get("scale") == "full")


def scale_text(bench: Bench) -> str:
    """Return the description of the scale that a result contains."""
    side = bench.subject.size[0]
    if is_full(bench):
        return f"full: random crops of {side} pixels, sliding windows in the test"
    return f"cached: features of {side} pixels, plain and mirrored, no random crops"


def num_steps(bench: Bench) -> int:
    """Return the number of steps to train a head: the given one, or that of its scale."""
    recipe = RECIPES[bench.method]
    published = FULL_STEPS.get(bench.method) if is_full(bench) else None
    return int(bench.options["steps"]) or published or recipe.num_steps(len(bench.train))


def model_passes(bench: Bench) -> list[tuple[Split, float]]:
    """Return the number of forward passes per image; only the full scale takes any."""
    if bench.method not in RECIPES or not is_full(bench):
        return []
    crops = num_steps(bench) * RECIPES[bench.method].batch
    windows = 2 * (1 + RECIPES[bench.method].num_evaluations)
    return [(bench.train, crops / len(bench.train)), (bench.val, windows)]


def trained_label_size(bench: Bench, rows: int, cols: int) -> tuple[int, int]:
    """Return the height and width of the labels of an image while a head is trained."""
    if is_full(bench):
        return bench.subject.size
    return RECIPES[bench.method].resized or (DETAIL * rows, DETAIL * cols)


def trained_head_seconds(bench: Bench) -> float:
    """Return the expected time of training a head for every seed, and of every evaluation."""
    recipe, sizes = RECIPES[bench.method], bench.sizes
    label_size = trained_label_size(bench, sizes.rows, sizes.cols)
    training = head_seconds(
        recipe, num_steps(bench), sizes.width, len(bench.train.classes),
        (sizes.rows, sizes.cols), label_size,
    )  # fmt: skip
    seeds = int(bench.options["seeds"])
    return seeds * training + (seeds + recipe.num_evaluations) * scoring_seconds(bench)


def run_trained_head(bench: Bench) -> Iterator[TaskNumber]:
    """Yield the numbers of the last step, and those of the best step if the authors report it."""
    recipe = RECIPES[bench.method]
    num_classes = len(bench.train.classes)
    full = is_full(bench)
    steps, scored_size = num_steps(bench), recipe.resized
    if full:
        label_size = bench.subject.size
        batch, width = crop_batches(bench), bench.sizes.width
    else:
        val = bench.features(bench.val)
        width, grid = val.width, val.grid
        label_size = trained_label_size(bench, grid.rows, grid.cols)
        batch = cached_batches(bench, label_size)

    def score(head: nn.Module) -> Matrices:
        maps = window_maps(bench, head, recipe) if full else head_maps(head, val, recipe)
        return score_images(bench.val, maps, num_classes, label_size=scored_size)

    best: list[tuple[float, int, Matrices]] = []

    def evaluate(head: nn.Module, step: int) -> None:
        matrices = score(head)
        best.append((float(miou(matrices.whole, np.ones(len(bench.val)))), step, matrices))

    found: list[Matrices] = []
    for seed in range(int(bench.options["seeds"])):
        head = train_head(
            recipe, batch, len(bench.train), width, num_classes, steps=steps, seed=seed,
            saved=bench.scratch(f"head-{seed}.pt"), evaluate=evaluate if not seed else None,
            num_evaluations=recipe.num_evaluations, progress=bench.progress,
        )  # fmt: skip
        found.append(score(head))
    settings: dict[str, Any] = {
        **bench.settings(),
        "scale": scale_text(bench),
        "steps": steps,
        "batch": recipe.batch,
        "training_label_size": list(label_size),
        "label_size": "of each mask" if scored_size is None else list(scored_size),
        "void": "neither trained on nor scored",
        "chosen_on": "nothing is chosen: the last step",
    }
    numbers = list(segmentation_findings(found[0], bench.val.classes, settings))
    if len(found) > 1:
        each = [float(miou(x.whole, np.ones(len(bench.val)))) for x in found]
        over = over_seeds(each)
        seeds = {"seeds": each, "over_seeds": [over.value, over.low, over.high]}
        numbers[0] = numbers[0]._replace(details={**numbers[0].details, **seeds})
    yield from numbers
    if best:
        _, step, matrices = max(best, key=lambda each: each[0])
        chosen = f"the best of {len(best)} evaluations on val, step {step}"
        compat = {**settings, "chosen_on": chosen}
        yield TaskNumber("mIoU (compat)", matrices.whole, miou, compat)


LOCAT = Method(
    "locat", options=OPTIONS, mirrored=True, seconds=trained_head_seconds, check=check_options
)
DINOV2, DINOV3, NECO = (replace(LOCAT, name=x, place="norm") for x in ("dinov2", "dinov3", "neco"))
