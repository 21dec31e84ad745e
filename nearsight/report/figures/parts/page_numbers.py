"""Select the numbers of parts that the explorer shows, from measure.json and train.jsonl.

The entry of a quantity says where it is, what it is called, and whether it is one number for each
head (shown as a heatmap) or a spread over patches, heads and images (shown as percentiles by
layer).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

PERCENTILES = ("mean", "percentiles")


@dataclass(frozen=True)
class PageNumber:
    """A quantity of a part, and how the explorer shows it."""

    key: str  # of the part in a layer of measure.json
    field: str
    kind: Literal["head", "spread"]
    title: str
    unit: str
    note: str = ""


PAGE_NUMBERS = (
    PageNumber("gaussian", "deviation", "spread", "Widths of the Gaussians (GAug)",
               "standard deviation in patches"),
    PageNumber("gaussian", "strength", "spread", "Strengths of the Gaussians",
               "added to the logits"),
    PageNumber("gpsa", "gate", "head", "gate", "0 to 1",
               "Gate: the share of a head's attention that depends on position alone (GPSA)."),
)  # fmt: skip


def page_numbers(layers: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return these quantities for the layers of a model, with ``None`` for a layer without.

    >>> (found,) = page_numbers([{"gpsa": {"gate": [0.5, 1.0]}}, {}])
    >>> found["title"], found["layers"]
    ('gate', [[0.5, 1.0], None])
    """
    found = []
    for number in PAGE_NUMBERS:
        values = [_value(number, layer.get(number.key)) for layer in layers]
        if any(value is not None for value in values):
            words = {name: getattr(number, name) for name in ("kind", "title", "unit", "note")}
            found.append({**words, "layers": values})
    return found


def _value(number: PageNumber, layer: Mapping[str, Any] | None) -> Any:
    value = None if layer is None else layer.get(number.field)
    if value is None:
        return None
    return list(value) if number.kind == "head" else {part: value[part] for part in PERCENTILES}
