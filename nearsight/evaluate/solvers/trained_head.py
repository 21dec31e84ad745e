"""Train heads on frozen features, of patches or of whole images.

A recipe says what the head's layers, optimiser, schedule and batch are. The feature of a whole
image is treated as a map of one patch. The loop chooses images and mirrors them by hashes of the
step, so that a training that was killed continues from its last save with the same result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from nearsight.core import write_bytes
from nearsight.data import VOID
from nearsight.data.draws import permutation, seeded_torch, uniform

SAVED_EVERY = 1000  # steps
CPU = torch.device("cpu")
# Returns features and labels, given the numbers of images, whether to mirror them, and the step.
Batch = Callable[[list[int], bool, int], tuple[Tensor, Tensor]]
Progress = Callable[[int, int], None]


def mlp_head(width: int, num_classes: int) -> nn.Module:
    """Make a head: 1x1 convolution to 512, GroupNorm(1), GELU, 1x1 convolution."""
    return nn.Sequential(
        nn.Conv2d(width, 512, 1), nn.GroupNorm(1, 512), nn.GELU(), nn.Conv2d(512, num_classes, 1)
    )


def small_head(width: int, num_classes: int) -> nn.Module:
    """Make a head: a 1x1 convolution whose weights start with deviation 0.01 and no bias."""
    head = nn.Conv2d(width, num_classes, 1)
    nn.init.normal_(head.weight, std=0.01)
    assert head.bias is not None
    nn.init.zeros_(head.bias)
    return head


def batch_norm_head(width: int, num_classes: int) -> nn.Module:
    """Make a head: batch norm, then a 1x1 convolution whose weights start with deviation 0.01."""
    return nn.Sequential(nn.BatchNorm2d(width), small_head(width, num_classes))


def dropout_head(width: int, num_classes: int) -> nn.Module:
    """Make a head: dropout of whole channels (0.1), batch norm, 1x1 convolution."""
    return nn.Sequential(nn.Dropout2d(0.1), batch_norm_head(width, num_classes))


def plain_head(width: int, num_classes: int) -> nn.Module:
    """Make a head: a 1x1 convolution."""
    return nn.Conv2d(width, num_classes, 1)


def one_cycle(share: float) -> float:
    """Return a rate that rises from 1e-4 to 1 in a quarter of the steps, then falls to 1e-8.

    >>> one_cycle(0.25), round(one_cycle(0.625), 3)
    (1.0, 0.5)
    """
    if share < 0.25:
        return 1e-4 + (1 - 1e-4) * share / 0.25
    return 1e-8 + (1 - 1e-8) * (1 - share) / 0.75


def warm_linear(share: float) -> float:
    """Return a rate that rises in 3.75 % of the steps (1,500 of 40,000), then falls linearly."""
    return min(share / 0.0375, 1.0) * (1 - share)


def warm_cosine(share: float) -> float:
    """Return a rate that rises in 3.75 % of the steps, then falls to 0 as a cosine.

    >>> warm_cosine(0.0375), round(warm_cosine(1.0), 9)
    (1.0, 0.0)
    """
    if share < 0.0375:
        return share / 0.0375
    return (1 + math.cos(math.pi * (share - 0.0375) / (1 - 0.0375))) / 2


def cosine(share: float) -> float:
    """Return a rate that falls to 0 as a cosine from the first step on.

    >>> cosine(0.0), round(cosine(0.5), 9)
    (1.0, 0.5)
    """
    return (1 + math.cos(math.pi * share)) / 2


def constant(share: float) -> float:
    """Return the same learning rate at every step."""
    return 1.0


@dataclass(frozen=True)
class HeadRecipe:
    """How a head is made and trained.

    Args:
        build: Returns the head for a width and a number of classes.
        rate: The largest learning rate.
        decay: The weight decay.
        batch: The number of images in a step.
        steps: The number of steps at the cached scale; 0 means that ``epochs`` decide.
        schedule: Returns the factor of the learning rate for the share of steps done (0..1).
        optimiser: ``adamw`` (betas 0.9 and 0.999) or ``sgd`` (momentum 0.9).
        epochs: The number of passes over the training images, if ``steps`` is 0.
        resized: The height and width to which features are resized before the head, if any.
        num_evaluations: How many times the authors evaluate on the validation images to keep the
            best head; 0 if they keep the last one.
    """

    build: Callable[[int, int], nn.Module]
    rate: float
    decay: float
    batch: int
    steps: int
    schedule: Callable[[float], float]
    optimiser: Literal["adamw", "sgd"] = "adamw"
    epochs: int = 0
    resized: tuple[int, int] | None = None
    num_evaluations: int = 0

    def num_steps(self, num_images: int) -> int:
        """Return the steps that training takes."""
        return self.steps or self.epochs * steps_per_pass(num_images, self.batch)

    def make_optimiser(self, head: nn.Module) -> torch.optim.Optimizer:
        """Return the optimiser of a head."""
        if self.optimiser == "sgd":
            return torch.optim.SGD(head.parameters(), self.rate, 0.9, weight_decay=self.decay)
        return torch.optim.AdamW(head.parameters(), self.rate, weight_decay=self.decay)


def steps_per_pass(num_images: int, batch: int) -> int:
    """Return the number of whole batches of a pass over the images, at least 1.

    >>> steps_per_pass(1464, 128), steps_per_pass(23, 128)
    (11, 1)
    """
    return max(1, num_images // batch)


def segmentation_loss(
    logits: Float[Tensor, "image cls row col"], labels: Int[Tensor, "image h w"]
) -> Float[Tensor, ""]:
    """Return the cross-entropy of labelled pixels, with logits interpolated to their size."""
    if logits.shape[-2:] != labels.shape[-2:]:
        logits = F.interpolate(logits, labels.shape[-2:], mode="bilinear", align_corners=False)
    known = (labels != VOID).sum().clamp(min=1)
    return F.cross_entropy(logits, labels, ignore_index=VOID, reduction="sum") / known


def train_head(
    recipe: HeadRecipe,
    batch: Batch,
    num_images: int,
    width: int,
    num_classes: int,
    *,
    steps: int | None = None,
    seed: int = 0,
    saved: Path | None = None,
    evaluate: Callable[[nn.Module, int], None] | None = None,
    num_evaluations: int = 0,
    progress: Progress | None = None,
) -> nn.Module:
    """Train a head and return it in evaluation mode.

    Args:
        recipe: The head and its optimiser.
        batch: Returns features [image, width, row, col] and labels, given the numbers of images,
            whether to mirror them, and the step.
        num_images: The number of images to choose from.
        width: The number of features.
        num_classes: The number of classes.
        steps: The number of steps. By default that of the recipe.
        seed: Random seed for the initial weights and the order of images.
        saved: Save to this file every 1,000 steps, and continue from it.
        evaluate: Called with the head and the step, ``num_evaluations`` times at equal steps.
        num_evaluations: How many times to call ``evaluate``.
        progress: Called with the number of finished steps and of all steps.
    """
    num_steps = steps or recipe.num_steps(num_images)
    with seeded_torch("head", seed, device=CPU):
        head = recipe.build(width, num_classes)
    optimiser = recipe.make_optimiser(head)
    first = 0
    if saved is not None and saved.is_file():
        state = torch.load(saved, weights_only=True)
        head.load_state_dict(state["head"])
        optimiser.load_state_dict(state["optimiser"])
        first = int(state["step"])
    per_pass, size = steps_per_pass(num_images, recipe.batch), min(recipe.batch, num_images)
    for step in range(first, num_steps):
        head.train()
        done, part = divmod(step, per_pass)
        order = permutation("head order", seed, done, length=num_images)
        chosen = order[part * size : (part + 1) * size].tolist()
        mirrored = bool(uniform("head mirror", seed, step, num=1) < 0.5)
        features, labels = batch(chosen, mirrored, step)
        if recipe.resized is not None:
            features = F.interpolate(features, recipe.resized, mode="bilinear", align_corners=False)
        for group in optimiser.param_groups:
            group["lr"] = recipe.rate * recipe.schedule((step + 1) / num_steps)
        with seeded_torch("head dropout", seed, step, device=CPU):
            loss = segmentation_loss(head(features), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        before, now = (x * num_evaluations // num_steps for x in (step, step + 1))
        if evaluate and now > before:
            evaluate(head.eval(), step + 1)
        if saved is not None and (step + 1) % SAVED_EVERY == 0 and step + 1 < num_steps:
            _save(saved, head, optimiser, step + 1)
        if progress:
            progress(step + 1, num_steps)
    if saved is not None:
        saved.unlink(missing_ok=True)
    return head.eval()


def _save(path: Path, head: nn.Module, optimiser: torch.optim.Optimizer, step: int) -> None:
    import io

    state: dict[str, Any] = {
        "head": head.state_dict(),
        "optimiser": optimiser.state_dict(),
        "step": step,
    }
    file = io.BytesIO()
    torch.save(state, file)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, file.getvalue())
