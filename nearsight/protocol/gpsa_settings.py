"""The settings of gated positional self-attention (GPSA)."""

from __future__ import annotations

from typing import Any, Literal

from nearsight.protocol.validation import CountOrZero, Positive, choose_settings, dataclass


@dataclass(frozen=True, kw_only=True)
class GpsaSettings:
    """Settings of gated positional self-attention in the first layers.

    The defaults are those of ConViT, and the other values are those of its ablations. With
    ``mixing="summed"`` (PSA), the scores of content and position are added before the softmax.
    """

    layers: CountOrZero | None = None  # how many layers have it; None: all but the last two
    strength: Positive = 1.0  # how sharply a head attends to its position in the kernel
    convolution: bool = True  # initialise the positional attention as a convolution
    mixing: Literal["gated", "summed"] = "gated"
    train_gates: bool = True  # false: content and position keep a weight of 0.5 each
    train_attention: bool = True  # false: the attention of these layers is not trained


GpsaChoice = bool | dict[str, Any] | GpsaSettings | None


def gpsa_settings(choice: GpsaChoice) -> GpsaSettings | None:
    """Convert True (the paper's settings), a dict, settings, False or None (off) into settings.

    >>> gpsa_settings({"strength": 2}).strength
    2.0
    """
    return choose_settings(GpsaSettings, choice, "gpsa", "GPSA")
