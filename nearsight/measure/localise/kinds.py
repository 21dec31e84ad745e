"""What ``--localise`` says: how near patches may look, in which layers.

gaussian:WIDTH  -d^2 / (2 WIDTH^2) is added to the logits; d is the distance in patches
window:SIDE     a patch attends only to the window of SIDE x SIDE patches around it
outside:SIDE    a patch attends only to patches outside of that window
identity        a patch attends only to itself (MaskCLIP's trick); prefix tokens are hidden as well
shifted:WIDTH   the same Gaussian around a wrong patch, half a grid down and half a grid right
sinks:TIMES     patches that get more than TIMES the attention they would get if it were spread
                evenly are hidden from the others, by image and head

The last three are controls: what is gained without mixing, without locality, and without sinks.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from nearsight.core import UserError, suggestion

IDENTITY = "identity"
VALUES = {"gaussian": 1.0, "window": 3.0, "outside": 3.0, "shifted": 1.0, "sinks": 4.0}
KINDS = (*VALUES, IDENTITY)
SIDES = ("window", "outside")
DEFAULT_LAYERS = "last3"
KEEP = "keep-share"
EXAMPLE = "write it as gaussian:1@last3, window:3@10-12 or outside:3@all"


@dataclass(frozen=True)
class Locality:
    """How a model's attention is made local.

    Args:
        kind: What is done to the logits between patches.
        value: Width in patches, side in patches, or times the even share; identity has none.
        layers: ``last3``, ``all``, or numbers counted from 1 (``4,6`` or ``4-6``).
        keep_share: Whether a patch gives prefix tokens the share that it gave them before.

    >>> str(Locality("window", 3, "all", keep_share=True))
    'window:3@all+keep-share'
    """

    kind: str = "gaussian"
    value: float | int = 1.0
    layers: str = DEFAULT_LAYERS
    keep_share: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UserError(
                f"there is no locality {self.kind!r}{suggestion(self.kind, KINDS)}; {EXAMPLE}"
            )
        if self.kind != IDENTITY and (math.isnan(self.value) or self.value <= 0):
            raise UserError(
                f"{self.kind}:{self.value:g} is not possible: the number must be positive; for the "
                f"limit of width 0 take window:1, or {IDENTITY} without prefix tokens"
            )
        if self.kind in SIDES and (self.value % 2 != 1):
            raise UserError(
                f"{self.kind}:{self.value:g} is not possible: a window has an odd side (1, 3, 5), "
                "so that the patch is in its middle"
            )
        if self.keep_share and self.kind == IDENTITY:
            raise UserError(f"{IDENTITY} hides prefix tokens, so it cannot keep their share")

    def __str__(self) -> str:
        value = "" if self.kind == IDENTITY else f":{self.value:g}"
        return f"{self.kind}{value}@{self.layers}{f'+{KEEP}' if self.keep_share else ''}"

    @property
    def width(self) -> float:
        """The width of its Gaussian in patches; 1 where it has none."""
        return self.value if self.kind in ("gaussian", "shifted") else VALUES["gaussian"]

    def choose_layers(self, num_layers: int) -> list[int]:
        """Return the numbers, counted from 0, of the layers that are changed.

        Raises:
            UserError: The model has no such layer, or the text cannot be read.

        >>> Locality(layers="last2").choose_layers(5), Locality(layers="1,3-4").choose_layers(5)
        ([3, 4], [0, 2, 3])
        """
        text = self.layers.replace(" ", "")
        if text == "all":
            return list(range(num_layers))
        if found := re.fullmatch(r"last(\d*)", text):
            num = int(found[1] or 1)
            if not 1 <= num <= num_layers:
                raise self._unknown(num_layers)
            return list(range(num_layers - num, num_layers))
        chosen: set[int] = set()
        for word in text.split(","):
            found = re.fullmatch(r"(\d+)(?:-(\d+))?", word)
            first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
            if not 1 <= first <= last <= num_layers:
                raise self._unknown(num_layers)
            chosen |= set(range(first - 1, last))
        return sorted(chosen)

    def _unknown(self, num_layers: int) -> UserError:
        return UserError(
            f"the layers {self.layers!r} cannot be chosen: the model has layers 1 to {num_layers} "
            "that attend between patches; write last3, all, or numbers like 4,6 or 4-6"
        )


def read_locality(text: str, layers: str | None = None) -> Locality:
    """Read what a user writes after ``--localise``.

    Args:
        text: Such as ``gaussian:0.7@last3`` or ``window:3@all+keep-share``.
        layers: The layers if the text names none; by default the last 3.

    Raises:
        UserError: The text cannot be read.

    >>> read_locality("gaussian:0.7@last2")
    Locality(kind='gaussian', value=0.7, layers='last2', keep_share=False)
    """
    given, plus, option = text.strip().partition("+")
    what, at, where = given.partition("@")
    kind, colon, number = what.partition(":")
    value = VALUES.get(kind, 1.0)
    if (plus and option != KEEP) or (at and not where) or (colon and kind == IDENTITY):
        raise UserError(f"--localise is {text!r}, which cannot be read; {EXAMPLE}")
    if colon:
        try:
            value = float(number)
        except ValueError:
            raise UserError(
                f"--localise is {text!r}, but {number!r} is no number; {EXAMPLE}"
            ) from None
    return Locality(kind, value, where or layers or DEFAULT_LAYERS, bool(plus))
