"""The settings of gated positional self-attention (GPSA)."""

from __future__ import annotations

from typing import Any, Literal

from nearsight.protocol.validation import CountOrZero, Positive, choose_settings, dataclass


@dataclass(frozen=True, kw_only=True)
class GpsaSettings:
    """Gated positional self-attention in the first layers; the defaults are ConViT's.

    The others are its ablations: summed is PSA, scores added before the softmax.
    """

    layers: CountOrZero | None = None  # None: all but the last two
    strength: Positive = 1.0  # how sharply a head looks at its place of the kernel
    convolution: bool = True  # start as a convolution
    mixing: Literal["gated", "summed"] = "gated"
    train_gates: bool = True  # false: content and position weigh 0.5 each for good
    train_attention: bool = True  # false: these layers' attention stays at its start


GpsaChoice = bool | dict[str, Any] | GpsaSettings | None


def gpsa_settings(choice: GpsaChoice) -> GpsaSettings | None:
    """True: the paper's; a dict or settings: a variant; False or None: no GPSA.

    >>> gpsa_settings({"strength": 2}).strength
    2.0
    """
    return choose_settings(GpsaSettings, choice, "gpsa", "GPSA")
