"""A protocol on a fraction of the training data, as ConViT's sample efficiency compares them.

Epochs, warm-up and patience are multiplied by 1 / fraction: the model sees as many images as with
all data, each of them more often. So are the epochs between looks at the attention.
"""

from __future__ import annotations

from dataclasses import replace

from nearsight.core import UserError
from nearsight.protocol.schema import Protocol

FRACTIONS = (0.05, 0.1, 0.3, 0.5, 1.0)  # of the paper
MARK = "@"


def at_fraction(protocol: Protocol, fraction: float) -> Protocol:
    """The protocol on ``fraction`` of every class, for as many images seen; its name says so.

    Epochs and patience are rounded to whole epochs. The warm-up is not, but for its last digits.
    """
    if protocol.data.fraction != 1:
        raise UserError(
            f"expected a protocol of all data to take {fraction:g} of them, "
            f"got {protocol.name} of {protocol.data.fraction:g}"
        )
    if not 0 < fraction <= 1:
        raise UserError(f"expected a fraction above 0 and at most 1, got {fraction:g}")
    if fraction == 1:
        return protocol

    def longer(epochs: int | None) -> int | None:
        return None if epochs is None else round(epochs / fraction)

    return replace(
        protocol,
        name=f"{protocol.name}{MARK}{100 * fraction:g}%",
        data=replace(protocol.data, fraction=fraction),
        epochs=round(protocol.epochs / fraction),
        patience=longer(protocol.patience),
        warmup_epochs=round(protocol.warmup_epochs / fraction, 3),
        measure_every=longer(protocol.measure_every),
    )


def whole_name(name: str) -> str:
    """The name without its fraction.

    >>> whole_name("modern-cutmix@10%")
    'modern-cutmix'
    """
    return name.partition(MARK)[0]
