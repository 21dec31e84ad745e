"""Train on a fraction of the data for as many steps as on all of it, as the ConViT paper does.

Epochs, warm-up, patience and the epochs between two measurements of the attention are divided by
the fraction. The model therefore sees as many images as with all the data, each of them more often.
"""

from __future__ import annotations

from dataclasses import replace

from nearsight.core import UserError
from nearsight.protocol.schema import Protocol

FRACTIONS = (0.05, 0.1, 0.3, 0.5, 1.0)  # those of the ConViT paper
MARK = "@"  # stands between the name of a protocol and its fraction


def at_fraction(protocol: Protocol, fraction: float) -> Protocol:
    """Return the protocol for a fraction of the training images of every class.

    Epochs, patience, warm-up and the epochs between measurements grow by 1 / ``fraction``, so that
    the same number of images is seen. Epochs and patience are rounded to whole epochs.

    Args:
        protocol: A protocol for all the data.
        fraction: Share of the images of every class, above 0 and at most 1.

    Returns:
        A protocol whose name ends in the fraction, for example ``modern@10%``.

    Raises:
        UserError: If the fraction is out of range, or the protocol already has one.

    >>> from nearsight.protocol import preset
    >>> tenth = at_fraction(preset("modern"), 0.1)
    >>> tenth.name, tenth.data.fraction, tenth.epochs
    ('modern@10%', 0.1, 6000)
    """
    if protocol.data.fraction != 1:
        raise UserError(
            f"{protocol.name} already trains on {protocol.data.fraction:g} of the data; "
            f"apply the fraction {fraction:g} to a protocol that trains on all of the data"
        )
    if not 0 < fraction <= 1:
        raise UserError(f"the fraction is {fraction:g}, but must be above 0 and at most 1")
    if fraction == 1:
        return protocol

    def longer(epochs: int | None) -> int | None:
        return None if epochs is None else round(epochs / fraction)

    dino = protocol.dino
    if dino is not None:
        dino = replace(
            dino,
            frozen_epochs=round(dino.frozen_epochs / fraction),
            teacher_warmup_epochs=round(dino.teacher_warmup_epochs / fraction),
            knn_every=round(dino.knn_every / fraction),
        )
    slower = protocol.optimizer
    if slower.schedule == "step":
        slower = replace(slower, step_epochs=round(slower.step_epochs / fraction, 3))
    return replace(
        protocol,
        name=f"{protocol.name}{MARK}{100 * fraction:g}%",
        data=replace(protocol.data, fraction=fraction),
        epochs=round(protocol.epochs / fraction),
        patience=longer(protocol.patience),
        warmup_epochs=round(protocol.warmup_epochs / fraction, 3),
        measure_every=longer(protocol.measure_every),
        optimizer=slower,
        dino=dino,
    )


def whole_name(name: str) -> str:
    """Return a protocol's name without its fraction.

    >>> whole_name("modern-cutmix@10%")
    'modern-cutmix'
    """
    return name.partition(MARK)[0]
