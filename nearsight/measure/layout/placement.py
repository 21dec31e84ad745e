"""Where the tokens of an attention call sit on the image, for every family of models.

``families.py`` is the table of what is known; everything else is attention between all tokens, as
in ``tokens.py``.
"""

from __future__ import annotations

from torch import nn

from nearsight.measure.capture.interception import AttentionCall
from nearsight.measure.layout.families import FAMILIES, Family
from nearsight.measure.layout.tokens import Given, Layout, Skipped, checked, global_layout
from nearsight.models.layers.grid import Grid

__all__ = ["Layout", "Skipped", "layout_of"]


def layout_of(
    call: AttentionCall, grid: Grid | None = None, num_prefix: int | None = None
) -> Layout | Skipped:
    """Where the tokens of this call sit; ``grid`` and ``num_prefix`` are what the user says.

    A ValueError names the layer and the reason where that is not known, or not as the user says.
    """
    given = Given(grid, num_prefix)
    for place in reversed(call.path):
        if family := family_of(type(place.module)):
            found = family(call, place, given)
            break
    else:
        found = global_layout(call, given)
    return checked(call, found) if isinstance(found, Layout) else found


def family_of(kind: type[nn.Module]) -> Family | None:
    """What the table knows of a class or the classes it comes from."""
    for each in kind.__mro__:
        if family := FAMILIES.get(f"{each.__module__}.{each.__qualname__}"):
            return family
    return None
