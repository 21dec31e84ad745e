"""Settle a protocol: turn the settings that a user gave into those that the run records.

A study hashes the settled protocol into the key of a cell, and ``train_run`` trains with it.
Therefore both must settle it by the same rules.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nearsight.protocol import Protocol, fitted_warmup

TEACHER_WORDS = ("pretrained", "random")  # weights of a teacher that are not a path


def settle(protocol: Protocol) -> tuple[Protocol, str | None]:
    """Return the protocol as a run records it, and a note if the warm-up had to be shortened.

    The model gets its full name (``compact_vit`` for ``compact``), paths of weights become
    absolute, and a warm-up that is too long is shortened to a tenth of the epochs. Settling a
    settled protocol changes nothing.

    >>> from nearsight.protocol import preset
    >>> settled, note = settle(replace(preset("baseline", "shapes"), epochs=3))
    >>> settled.model.name, round(settled.warmup_epochs, 3), settle(settled) == (settled, None)
    ('compact_vit', 0.3, True)
    """
    from nearsight.models.zoo import full_name  # needs torch, which a report does not

    model = replace(protocol.model, name=full_name(protocol.model.name))
    return fitted_warmup(with_absolute_paths(replace(protocol, model=model)))


def with_absolute_paths(protocol: Protocol) -> Protocol:
    """Make the paths of weights absolute, because a worker may start in another folder."""
    model, teaching = protocol.model, protocol.distillation
    if model.weights is not None:
        model = replace(model, weights=str(Path(model.weights).resolve()))
    if teaching is not None and teaching.weights not in TEACHER_WORDS:
        teaching = replace(teaching, weights=str(Path(teaching.weights).resolve()))
    return replace(protocol, model=model, distillation=teaching)
