"""Summarise the attention of an evaluated model: how far layers attend, and what prefix tokens get.

Making attention local only lowers logits between patches, so the share of prefix tokens grows.
Therefore that share is stated beside the scores of a local model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from torch import Tensor

from nearsight.evaluate.features import Subject
from nearsight.measure.localise import localise
from nearsight.measure.profile import measure_model

BATCH_SIZE = 32


@dataclass(frozen=True)
class PrefixShares:
    """The mean share (0..1) of attention that patches give to prefix tokens in the local layers."""

    layers: tuple[int, ...]  # counted from 1
    plain: float
    local: float
    num_images: int

    def text(self) -> str:
        """Return the shares as a sentence.

        >>> PrefixShares((11, 12), 0.084, 0.2351, 32).text()
        'In layers 11, 12 patches give 23.5 % of their attention to prefix tokens, 8.4 % in the \
plain model (32 images).'
        """
        numbers = ", ".join(map(str, self.layers))
        where = f"layer{'s' * (len(self.layers) > 1)} {numbers}"
        return (
            f"In {where} patches give {100 * self.local:.1f} % "
            f"of their attention to prefix tokens, {100 * self.plain:.1f} % in the plain model "
            f"({self.num_images} images)."
        )


def prefix_shares(subject: Subject, images: Float[Tensor, "image 3 h w"]) -> PrefixShares:
    """Measure the share of prefix tokens, with the subject's locality and without it."""
    assert subject.model is not None
    assert subject.locality is not None
    local = layer_means(subject, images, "sink")
    try:
        localise(subject.model, None)
        plain = layer_means(subject, images, "sink")
    finally:
        localise(subject.model, subject.locality, image_size=subject.size)
    chosen = subject.locality.choose_layers(len(local))
    return PrefixShares(
        tuple(number + 1 for number in chosen),
        float(np.mean([plain[number] for number in chosen])),
        float(np.mean([local[number] for number in chosen])),
        len(images),
    )


def layer_means(subject: Subject, images: Tensor, metric: str) -> list[float]:
    """Return the mean over heads of a metric, for each layer of a subject's model."""
    assert subject.model is not None
    profile = measure_model(subject.model, images.split(BATCH_SIZE), metrics=(metric,))
    return [float(np.mean(heads)) for heads in profile.metrics[metric].mean]
