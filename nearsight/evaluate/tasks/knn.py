"""k-NN classification of whole images on frozen features, weighted as DINO does.

Features are normalised; the k nearest training images by cosine vote for their label with weight
exp(cosine / 0.07) (Wu et al. 2018; Caron et al. 2021). Class token, mean of patches, or both put
side by side, each normalised first.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from nearsight.core import UserError
from nearsight.evaluate.features import PIXEL_STATISTICS, RANDOM_INITIALISATION, Features
from nearsight.evaluate.solvers import nearest
from nearsight.evaluate.tasks.task import Bench, Method, Task, TaskNumber
from nearsight.stats import weighted_mean

NEIGHBOURS = (10, 20, 100, 200)
TEMPERATURE = 0.07
TOKENS = ("class", "patches", "both")
PIECE = 4096  # images whose patches are averaged at once


def image_features(
    features: Features, tokens: str, normalise: bool = True
) -> Float[Tensor, "image width"]:
    """Return one vector for each image: its class token, the mean of its patches, or both.

    Args:
        features: Of some images.
        tokens: ``class``, ``patches`` or ``both``.
        normalise: Divide the class token and the mean of patches each by its length.

    Raises:
        UserError: If the model has no class token, or ``tokens`` is none of these.
    """
    if tokens not in TOKENS:
        raise UserError(f"tokens should be one of {', '.join(TOKENS)}, but it is {tokens!r}")
    parts = []
    if tokens != "patches":
        if features.cls is None:
            raise UserError("the model has no class token; give --set tokens=patches")
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


def run_knn(bench: Bench) -> Iterator[TaskNumber]:
    """Yield top-1 and top-5 accuracy for each number of neighbours."""
    tokens = bench.options["tokens"]
    train, val = (
        F.normalize(image_features(bench.features(split), tokens), dim=-1)
        for split in (bench.train, bench.val)
    )
    assert bench.train.labels is not None
    assert bench.val.labels is not None
    train_labels, truth = (torch.from_numpy(x.labels) for x in (bench.train, bench.val))
    most = max(NEIGHBOURS)
    if len(train) < most:
        raise UserError(
            f"k-NN takes up to {most} neighbours, but there are only {len(train)} training images"
        )
    cosines, found = nearest(train, val, most)
    settings = {**bench.settings(), "temperature": TEMPERATURE, "vote": "exp(cosine / T)"}
    for k in NEIGHBOURS:
        votes = knn_votes(cosines[:, :k], train_labels[found[:, :k]], len(bench.train.classes))
        best = votes.topk(min(5, votes.shape[1]), -1).indices
        hits = (best == truth[:, None]).numpy()
        any_hit: np.ndarray = hits.max(1)
        stated = {**settings, "k": k}
        yield TaskNumber(f"top1 of {k}", hits[:, 0], weighted_mean, stated)
        yield TaskNumber(f"top5 of {k}", any_hit, weighted_mean, stated)


KNN = Task(
    "knn",
    "labels",
    run_knn,
    (Method("dino", place="norm", options={"tokens": "class"}),),
    controls=(RANDOM_INITIALISATION, PIXEL_STATISTICS),
)
