"""Define DINO's networks: a model with a projection head, and the teacher that follows it.

The head is an MLP with GELU, then a vector of length 1, then a linear layer without bias whose rows
have length 1 (weight normalisation with its gain fixed at 1, as DINO's ``norm_last_layer``).
"""

from __future__ import annotations

import copy
from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from nearsight.protocol import Dino


class ProjectionHead(nn.Module):
    """Turn a feature vector into ``outputs`` cosines, which a softmax compares."""

    def __init__(self, width: int, settings: Dino) -> None:
        super().__init__()
        hidden = [settings.hidden] * (settings.head_layers - 1)
        layers: list[nn.Module] = []
        for before, after in pairwise([width, *hidden, settings.bottleneck]):
            layers += [nn.Linear(before, after), nn.GELU()]
        self.mlp = nn.Sequential(*layers[:-1])
        self.last = nn.Linear(settings.bottleneck, settings.outputs, bias=False)
        for layer in self.mlp:
            if isinstance(layer, nn.Linear):
                nn.init.trunc_normal_(layer.weight, std=0.02)
                nn.init.zeros_(layer.bias)

    def forward(self, features: Float[Tensor, "n width"]) -> Float[Tensor, "n out"]:
        """Return the cosine of the projected features with every row of the last layer."""
        return F.linear(
            F.normalize(self.mlp(features), dim=-1), F.normalize(self.last.weight, dim=-1)
        )


class Branch(nn.Module):
    """A model and its projection head: the student, or the teacher."""

    def __init__(self, backbone: nn.Module, head: ProjectionHead) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head

    def forward(self, *sizes: Float[Tensor, "_ 3 _ _"]) -> Float[Tensor, "n out"]:
        """Return the outputs of all images; images of one size go through the model together."""
        return self.head(torch.cat([embed_images(self.backbone, images) for images in sizes]))


class MomentumTeacher(nn.Module):
    """A copy of the student that follows it, and the centre of its outputs.

    The centre is a moving average of the teacher's mean output. Subtracting it keeps one output
    from taking over.
    """

    centre: Tensor

    def __init__(self, student: Branch) -> None:
        super().__init__()
        self.branch: Branch = copy.deepcopy(student).eval().requires_grad_(False)
        weight = student.head.last.weight
        self.register_buffer("centre", weight.new_zeros(weight.shape[0]))

    @torch.no_grad()
    def follow(self, student: Branch, momentum: float) -> None:
        """Move every weight to ``momentum * own + (1 - momentum) * student's``."""
        for mine, theirs in zip(self.branch.parameters(), student.parameters(), strict=True):
            mine.lerp_(theirs, 1 - momentum)
        for own, other in zip(self.branch.buffers(), student.buffers(), strict=True):
            own.copy_(own.lerp(other, 1 - momentum) if own.is_floating_point() else other)

    def move_centre(self, mean_output: Float[Tensor, " out"], momentum: float) -> None:
        """Move the centre to ``momentum * own + (1 - momentum) * mean_output``."""
        self.centre.lerp_(mean_output.to(self.centre.dtype), 1 - momentum)


def embed_images(model: nn.Module, images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n width"]:
    """Return the features that a model's classifier reads: [CLS] after the final norm and PRR."""
    module: object = model
    return module.forward_head(module.forward_features(images), pre_logits=True)  # type: ignore[attr-defined]


def dino_loss(
    student: Float[Tensor, "view n out"],
    teacher: Float[Tensor, "two n out"],
    centre: Float[Tensor, " out"],
    student_temperature: float,
    teacher_temperature: float,
) -> Float[Tensor, " n"]:
    """Return the mean cross-entropy over all pairs of different views, one of each network.

    The first views of the student are those that the teacher sees. The loss is log(outputs) if
    the student's outputs are uniform.

    >>> even = torch.zeros(3, 1, 4)
    >>> dino_loss(even, even[:2], torch.zeros(4), 0.1, 0.04).exp().item()
    4.0
    """
    kind = torch.float64 if student.dtype == torch.float64 else torch.float32
    predicted = (student.to(kind) / student_temperature).log_softmax(-1)
    wanted = ((teacher.to(kind) - centre.to(kind)) / teacher_temperature).softmax(-1)
    others = predicted.sum(0) - predicted[: len(wanted)]  # [two, n, out]: of all other views
    num_pairs = len(wanted) * (len(predicted) - 1)
    return -(wanted * others).sum((0, -1)) / num_pairs
