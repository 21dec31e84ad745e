"""Classify whole images by their nearest neighbours among frozen features (k-NN), as DINO does.

The k training images with the largest cosine vote for their labels with weight exp(cosine / 0.07)
(Wu et al. 2018; Caron et al. 2021). The feature of an image is its class token, the mean of its
patches, or both side by side; each is normalised first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nearsight.core import UserError
from nearsight.evaluate.features import PIXEL_STATISTICS, RANDOM_INITIALISATION, Features
from nearsight.evaluate.solvers import nearest, search_seconds
from nearsight.evaluate.tasks.task import Bench, Method, Task, TaskNumber
from nearsight.stats import weighted_mean

NEIGHBOURS = (10, 20, 100, 200)
TEMPERATURE = 0.07
TOKENS = ("class", "patches", "both")
PIECE = 4096  # images whose patches are averaged at once


def check_tokens(options: Mapping[str, Any]) -> None:
    """Check the option ``tokens``.

    Raises:
        UserError: If it is not one of TOKENS.
    """
    if options["tokens"] not in TOKENS:
        raise UserError(
            f"tokens is {options['tokens']!r}, but it must be one of {', '.join(TOKENS)}"
        )


def image_features(
    features: Features, tokens: str, normalise: bool = True
) -> Float[Tensor, "image width"]:
    """Return one vector for each image: its class token, the mean of its patches, or both.

    Args:
        features: The features of the images.
        tokens: ``class``, ``patches`` or ``both``.
        normalise: Whether to divide the class token and the mean of patches by their lengths.

    Raises:
        UserError: If the model has no class token.
    """
    parts = []
    if tokens != "patches":
        if features.cls is None:
            raise UserError("the model has no class token; use --set tokens=patches")
        parts.append(torch.from_numpy(np.array(features.cls, np.float32)))
    if tokens != "class":
        pieces = [
            torch.from_numpy(np.array(features.patches[start : start + PIECE], np.float32)).mean(1)
            for start in range(0, features.num_images, PIECE)
        ]
        parts.append(torch.cat(pieces))
    return torch.cat([F.normalize(part, dim=-1) if normalise else part for part in parts], 1)


def knn_votes(
    cosines: Float[Tensor, "query k"],
    labels: Int[Tensor, "query k"],
    num_classes: int,
    temperature: float = TEMPERATURE,
) -> Float[Tensor, "query cls"]:
    """Add up the votes of neighbours for their labels, each weighted by exp(cosine / T).

    >>> cosines = torch.tensor([[0.07, 0.0, 0.0]])
    >>> knn_votes(cosines, torch.tensor([[2, 0, 0]]), 3).tolist()[0][0]
    2.0
    """
    votes = cosines.new_zeros(len(cosines), num_classes)
    return votes.scatter_add_(1, labels, (cosines / temperature).exp())


def knn_hits(
    train: Float[Tensor, "image width"],
    train_labels: Int[Tensor, " image"],
    val: Float[Tensor, "query width"],
    val_labels: Int[Tensor, " query"],
    num_classes: int,
    neighbours: Sequence[int] = NEIGHBOURS,
    temperature: float = TEMPERATURE,
) -> dict[int, Bool[np.ndarray, "query 2"]]:
    """Classify images by k-NN, and return which are right (top-1 and top-5).

    Args:
        train: Features of the training images, of any length.
        train_labels: Their classes.
        val: Features of the images to classify.
        val_labels: Their true classes.
        num_classes: The number of classes.
        neighbours: The numbers of neighbours that vote.
        temperature: The temperature of the votes.

    Returns:
        By the number of neighbours: for each image, whether the class with most votes is right, and
        whether one of the five classes with most votes is.

    Raises:
        UserError: If there are fewer training images than neighbours.

    >>> train = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    >>> hits = knn_hits(train, torch.tensor([4, 3]), train, torch.tensor([4, 0]), 9, neighbours=[1])
    >>> hits[1][:, 0].tolist()
    [True, False]
    """
    most = max(neighbours)
    if len(train) < most:
        raise UserError(
            f"k-NN takes up to {most} neighbours, but there are only {len(train)} training images; "
            "use more with --num-train"
        )
    cosines, found = nearest(F.normalize(train, dim=-1), F.normalize(val, dim=-1), most)
    hits = {}
    for k in neighbours:
        votes = knn_votes(cosines[:, :k], train_labels[found[:, :k]], num_classes, temperature)
        best = votes.topk(min(5, num_classes), -1).indices
        right = best == val_labels[:, None]
        hits[k] = torch.stack([right[:, 0], right.any(1)], 1).numpy()
    return hits


def run_knn(bench: Bench) -> Iterator[TaskNumber]:
    """Yield top-1 and top-5 accuracy for each number of neighbours."""
    tokens = str(bench.options["tokens"])
    train, val = (image_features(bench.features(x), tokens) for x in (bench.train, bench.val))
    assert bench.train.labels is not None
    assert bench.val.labels is not None
    train_labels, truth = (torch.from_numpy(x.labels) for x in (bench.train, bench.val))
    hits = knn_hits(train, train_labels, val, truth, len(bench.train.classes))
    settings = {**bench.settings(), "temperature": TEMPERATURE, "vote": "exp(cosine / T)"}
    for k, right in hits.items():
        stated = {**settings, "k": k}
        yield TaskNumber(f"top1 of {k}", right[:, 0], weighted_mean, stated)
        yield TaskNumber(f"top5 of {k}", right[:, 1], weighted_mean, stated)


def knn_seconds(bench: Bench) -> float:
    """Return the expected time of the search."""
    width = bench.sizes.width * (2 if bench.options["tokens"] == "both" else 1)
    return search_seconds(len(bench.train), len(bench.val), width, max(NEIGHBOURS))


KNN = Task(
    "knn",
    "labels",
    run_knn,
    (
        Method(
            "dino",
            place="norm",
            options={"tokens": "class"},
            seconds=knn_seconds,
            check=check_tokens,
        ),
    ),
    controls=(RANDOM_INITIALISATION, PIXEL_STATISTICS),
)
