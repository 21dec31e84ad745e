"""Find out whether a training without labels has collapsed.

After a collapse the teacher gives the same answer for every image. Two kinds are known (Caron et
al. 2021, section 5.3): one output gets all the probability, or all outputs get the same. In both,
the output says nothing about the image: the mutual information between image and output is 0. It is
the entropy of the mean output minus the mean entropy of the outputs.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

LEAST_INFORMATION = 0.01  # nats; outputs that tell two equally large groups apart have 0.69
LEAST_VARIANCE = 1e-4  # of features of length 1; it is between 0 and 1


@dataclass(frozen=True)
class CollapseSigns:
    """How much the teacher's outputs and features differ between images."""

    teacher_entropy: float  # mean over images, as a share of log(outputs): 1 is uniform
    teacher_information: float  # nats, 0 to log(outputs)
    feature_variance: float  # of features of length 1: 0 if all point the same way, at most 1

    def warning(self) -> str | None:
        """Return a warning with a remedy if the training has collapsed, else None."""
        if self.teacher_information < LEAST_INFORMATION:
            if self.teacher_entropy > 0.5:
                what = "gives all outputs about the same probability for every image"
                cure = "lower dino.teacher_temperature"
            else:
                what = "gives nearly all probability to the same outputs for every image"
                cure = "raise dino.teacher_temperature, or lower dino.centre_momentum"
            return (
                f"Collapse: the teacher {what} (information about the image "
                f"{self.teacher_information:.2g} nats). The features of this run are not worth "
                f"keeping; {cure}, or take a lower optimizer.lr."
            )
        if self.feature_variance < LEAST_VARIANCE:
            return (
                f"Collapse: the features of all images point the same way (variance "
                f"{self.feature_variance:.2g} of 1). Take a lower optimizer.lr or a longer warm-up."
            )
        return None

    def line(self) -> dict[str, float]:
        """Return the numbers by name for train.jsonl."""
        return asdict(self)


def collapse_signs(
    outputs: Float[Tensor, "image out"], temperature: float, features: Float[Tensor, "image width"]
) -> CollapseSigns:
    """Return the signs of a collapse.

    Args:
        outputs: The teacher's outputs for different images, minus their centre.
        temperature: The temperature of the teacher.
        features: The features of the same images.

    >>> apart, same = torch.eye(4) * 9, torch.zeros(4, 4)
    >>> good = collapse_signs(apart, 0.1, torch.eye(4))
    >>> round(good.teacher_information, 2), round(good.teacher_entropy, 2), good.feature_variance
    (1.39, 0.0, 0.75)
    >>> collapse_signs(same, 0.1, torch.ones(4, 4)).teacher_information
    0.0
    """
    logs = (outputs.double() / temperature).log_softmax(-1)
    each = -(logs.exp() * logs).sum(-1).mean()
    mean = logs.exp().mean(0)
    whole = -torch.xlogy(mean, mean).sum()
    centre = F.normalize(features.double(), dim=-1).mean(0)
    return CollapseSigns(
        teacher_entropy=float(each) / math.log(max(2, outputs.shape[-1])),
        teacher_information=max(0.0, float(whole - each)),
        feature_variance=float(1 - centre.square().sum()),
    )
