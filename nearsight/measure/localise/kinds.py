"""Read the value of ``--localise``: how far patches may attend, and in which layers.

gaussian:WIDTH  adds -d^2 / (2 WIDTH^2) to the logits, where d is the distance in patches
window:SIDE     lets a patch attend only to the window of SIDE x SIDE patches around it
outside:SIDE    lets a patch attend only to patches outside that window
identity        lets a patch attend only to itself (MaskCLIP's method); also hides prefix tokens
shifted:WIDTH   centres the Gaussian on a wrong patch, half a grid down and half a grid to the right
sinks:TIMES     hides the patches of an image that receive more than TIMES as much attention from
                the other patches of a head as if it were spread evenly

The last three are controls. ``identity`` shows what is gained if patches do not mix at all,
``shifted`` what the same Gaussian gains without locality, and ``sinks`` what is gained by hiding
sinks alone.
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
    """How to make a model's attention local.

    Args:
        kind: What to do to the logits between patches: ``gaussian``, ``window``, ``outside``,
            ``identity``, ``shifted`` or ``sinks``.
        value: WIDTH or SIDE in patches, or TIMES, depending on the kind. ``identity`` has none.
        layers: ``last3``, ``all``, or numbers counted from 1 (``4,6`` or ``4-6``).
        keep_share: Keep the share of attention that each patch gives to prefix tokens.

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
                f"there is no locality {self.kind!r}; {EXAMPLE}{suggestion(self.kind, KINDS)}"
            )
        if self.kind != IDENTITY and (math.isnan(self.value) or self.value <= 0):
            raise UserError(
                f"{self.kind}:{self.value:g} is not possible, because the number must be positive; "
                f"to let a patch attend only to itself, write window:1, or {IDENTITY}, which also "
                "hides prefix tokens"
            )
        if self.kind in SIDES and (self.value % 2 != 1):
            raise UserError(
                f"{self.kind}:{self.value:g} is not possible, because the side of a window must be "
                "odd; choose 1, 3 or 5, for example, so that the patch is in its middle"
            )
        if self.keep_share and self.kind == IDENTITY:
            raise UserError(
                f"{IDENTITY} hides prefix tokens and cannot keep their share; leave out +{KEEP}"
            )

    def __str__(self) -> str:
        value = "" if self.kind == IDENTITY else f":{self.value:g}"
        return f"{self.kind}{value}@{self.layers}{f'+{KEEP}' if self.keep_share else ''}"

    @property
    def width(self) -> float:
        """The width of the Gaussian in patches; 1 for kinds without a Gaussian."""
        return self.value if self.kind in ("gaussian", "shifted") else VALUES["gaussian"]

    def choose_layers(self, num_layers: int) -> list[int]:
        """Return the indices, counted from 0, of the layers to change.

        Raises:
            UserError: If the model has no such layer, or ``layers`` cannot be read.

        >>> Locality(layers="last2").choose_layers(5), Locality(layers="1,3-4").choose_layers(5)
        ([3, 4], [0, 2, 3])
        """
        text = self.layers.replace(" ", "")
        if text == "all":
            return list(range(num_layers))
        if match := re.fullmatch(r"last(\d*)", text):
            num = int(match[1] or 1)
            if not 1 <= num <= num_layers:
                raise self._unknown(num_layers)
            return list(range(num_layers - num, num_layers))
        chosen: set[int] = set()
        for word in text.split(","):
            match = re.fullmatch(r"(\d+)(?:-(\d+))?", word)
            first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
            if not 1 <= first <= last <= num_layers:
                raise self._unknown(num_layers)
            chosen |= set(range(first - 1, last))
        return sorted(chosen)

    def _unknown(self, num_layers: int) -> UserError:
        """Return the error that a model with this number of layers lacks the chosen ones."""
        return UserError(
            f"there are no layers {self.layers!r}, because the model has layers 1 to {num_layers} "
            "with attention between patches; write last3, all, or numbers like 4,6 or 4-6"
        )


def read_locality(text: str, layers: str | None = None) -> Locality:
    """Read the value of ``--localise``.

    Args:
        text: For example ``gaussian:0.7@last3`` or ``window:3@all+keep-share``.
        layers: The layers if the text names none; by default the last 3.

    Raises:
        UserError: If the text cannot be read.

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
                f"--localise is {text!r}, but {number!r} is not a number; {EXAMPLE}"
            ) from None
    return Locality(kind, value, where or layers or DEFAULT_LAYERS, bool(plus))
