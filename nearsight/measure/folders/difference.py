"""Compute how two models differ on the same images: b - a, with paired 95 % intervals.

Images differ more from each other than models do on one image. The interval is therefore that of
the mean of the per-image differences b - a (Student's t). For an extreme (the most local head), the
images are split into halves, and each half measures the head that is most extreme on the other
half. Otherwise a head that looks extreme on these images only by chance would bias the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from nearsight.core import UserError
from nearsight.measure.metrics import Estimates
from nearsight.measure.profile import Profile
from nearsight.stats import extreme_difference, selected_heads, t_interval

SCORE = "score"  # 1 - MAD / MAD of uniform attention, comparable between grids

Level = Literal["head", "layer", "model"]


@dataclass(frozen=True)
class Change:
    """b - a of one number, with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, repr=False)
class ProfileDifference:
    """b - a of two profiles: ``metrics[name].mean[layer][head]``, ``.low`` and ``.high``.

    Attributes:
        num_images: Number of images.
        level: What is compared one by one. "head": every head. "layer": only the mean over each
            layer's heads, because the numbers of heads differ (``metrics`` is empty). "model": only
            ``mean`` and ``most_local``, because the numbers of layers differ (``layer_means`` is
            empty too).
        distance: "mad", or "score" if the grids differ; a larger score is more local.
        metrics: Differences of every head.
        layer_means: Differences of the mean over each layer's heads.
        mean: Differences of the mean over all heads of the layers that an output reads.
        most_local: Difference of the smallest MAD (or largest score) among these heads.
        notes: Sentences about what was converted or left out.
    """

    num_images: int
    level: Level
    distance: str
    metrics: dict[str, Estimates]
    layer_means: dict[str, list[Change]]
    mean: dict[str, Change]
    most_local: Change
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        changes = {
            "mean of all heads": self.mean[self.distance],
            "most local head": self.most_local,
        }
        told = (
            f"{name} {x.value:+.3f} ({x.low:+.3f} to {x.high:+.3f})" for name, x in changes.items()
        )
        return f"{self.distance} of b - a over {self.num_images} images: {', '.join(told)}"


def profile_difference(a: Profile, b: Profile) -> ProfileDifference:
    """Return b - a of two profiles of the same images in the same order.

    Args:
        a: The profile to compare with. Distances are counted in its convention.
        b: The other profile.

    Raises:
        UserError: If the numbers of images differ, or MAD was not measured in both.

    >>> from nearsight.measure.profile.profile import measure_model
    >>> from nearsight.models.load.registry import create_model
    >>> images = torch.randn(5, 3, 32, 32)
    >>> a, b = (measure_model(create_model("mu"), images) for _ in range(2))
    >>> difference = profile_difference(a, b)
    >>> difference.level, difference.metrics["mad"].mean[1].shape
    ('head', (2,))
    """
    if a.num_images != b.num_images:
        raise UserError(
            f"the profiles are of {a.num_images} and {b.num_images} images; measure both models "
            "on the same images"
        )
    notes: list[str] = []
    if a.convention != b.convention:
        notes.append(
            f"b was measured in the convention {b.convention.name} and is converted to "
            f"{a.convention.name}, that of a."
        )
        b = b.in_convention(a.convention.name)
    first, second, distance = _comparable(a, b, notes)
    level = _level(a, b, notes)
    one, other = ({name: [x[i] for i in _read(profile)] for name, x in values.items()}
                  for profile, values in ((a, first), (b, second)))  # fmt: skip
    notes += _choice_notes(one[distance], other[distance], largest=distance == SCORE)
    notes += _unread_notes(a, b)
    heads, layers = {}, {}
    for name in first:
        pairs = list(zip(first[name], second[name]))
        if level == "head":
            heads[name] = Estimates([y - x for x, y in pairs])
        if level != "model":
            layers[name] = [_mean_change([x], [y]) for x, y in pairs]
    return ProfileDifference(
        num_images=a.num_images,
        level=level,
        distance=distance,
        metrics=heads,
        layer_means=layers,
        mean={name: _mean_change(one[name], other[name]) for name in first},
        most_local=_extreme_change(one[distance], other[distance], largest=distance == SCORE),
        notes=tuple(notes),
    )


Values = dict[str, list[np.ndarray]]


def _comparable(a: Profile, b: Profile, notes: list[str]) -> tuple[Values, Values, str]:
    """Return the metrics that both have, with MAD replaced by the score if the grids differ."""
    shared = [
        name
        for name in a.metrics
        if name in b.metrics and _per_image(a, name) and _per_image(b, name)
    ]
    if "mad" not in shared:
        raise UserError(
            "the profiles cannot be compared without MAD; measure both with the metric 'mad'"
        )
    values_of: list[Values] = [
        {name: [x.reshape(len(x), -1) for x in profile.metrics[name].values] for name in shared}
        for profile in (a, b)
    ]
    grids = [[str(layer.grid) for layer in profile.layers] for profile in (a, b)]
    if grids[0] == grids[1] or (len(grids[0]) != len(grids[1]) and set(grids[0]) == set(grids[1])):
        return values_of[0], values_of[1], "mad"
    for profile, values in zip((a, b), values_of):
        values.pop("mad")
        if SCORE not in shared:
            values[SCORE] = _scores(profile)
    notes.append(
        f"The grids differ ({', '.join(dict.fromkeys(grids[0]))} and "
        f"{', '.join(dict.fromkeys(grids[1]))}), so MAD is compared as the score "
        "1 - MAD / MAD of uniform attention: larger is more local; other metrics depend on the "
        "grid too."
    )
    return values_of[0], values_of[1], SCORE


def _unread_notes(a: Profile, b: Profile) -> list[str]:
    """Say which layers are left out of the means over all heads and of the most local heads."""
    told = []
    for letter, profile in (("a", a), ("b", b)):
        left_out = [str(i + 1) for i in range(len(profile.layers)) if i not in _read(profile)]
        if left_out:
            told.append(f"layer{'s' * (len(left_out) > 1)} {', '.join(left_out)} of {letter}")
    if not told:
        return []
    return [
        "The mean of all heads and the most local head leave out layers whose patches no output "
        f"reads: {' and '.join(told)}."
    ]


def _choice_notes(one: list[np.ndarray], other: list[np.ndarray], largest: bool) -> list[str]:
    """Warn if the two halves of the images select different most local heads in a model."""
    told = [
        letter
        for letter, values in (("a", one), ("b", other))
        if len(set(selected_heads(np.concatenate(values, axis=1), largest))) > 1
    ]
    if not told:
        return []
    return [
        f"The images do not tell which head of {' and of '.join(told)} is the most local: each "
        "half of them selects another one. The interval of the change in the most local head "
        "allows for every head and is wide. Compare single heads, or measure more images."
    ]


def _read(profile: Profile) -> list[int]:
    """Return the layers that an output reads, or all layers if it reads none."""
    return profile.read_layers or list(range(len(profile.layers)))


def _per_image(profile: Profile, metric: str) -> bool:
    """Return whether a metric has one finite number per image and head (or layer) everywhere."""
    return all(
        values.ndim <= 2 and bool(np.isfinite(values).all())
        for values in profile.metrics[metric].values
    )


def _scores(profile: Profile) -> list[np.ndarray]:
    """Return the score, computed from MAD, of a profile in which it was not measured."""
    diagonals = profile.in_convention("paper").mad.values
    return [
        1 - values / layer.grid.uniform_distance()
        for values, layer in zip(diagonals, profile.layers, strict=True)
    ]


def _level(a: Profile, b: Profile, notes: list[str]) -> Level:
    """Return what can be compared one by one, and add a note if it is not the heads."""
    heads = [[layer.num_heads for layer in profile.layers] for profile in (a, b)]
    if len(heads[0]) != len(heads[1]):
        notes.append(
            f"The models have {len(heads[0])} and {len(heads[1])} layers: "
            "only means over all heads and the most local heads are compared."
        )
        return "model"
    if heads[0] != heads[1]:
        notes.append("The models differ in their numbers of heads: means of layers are compared.")
        return "layer"
    return "head"


def _mean_change(first: list[np.ndarray], second: list[np.ndarray]) -> Change:
    """Return the change of the mean over all heads of all layers."""
    one, two = (np.concatenate(layers, axis=1).mean(1) for layers in (first, second))
    mean, low, high, _ = t_interval(torch.from_numpy(two - one))
    return Change(mean.item(), low.item(), high.item())


def _extreme_change(first: list[np.ndarray], second: list[np.ndarray], largest: bool) -> Change:
    """Return the change of the most extreme head, which each half chooses for the other."""
    one, two = (np.concatenate(layers, axis=1) for layers in (first, second))
    return Change(*extreme_difference(one, two, largest))
