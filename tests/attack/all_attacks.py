"""Every attack with bad inputs, and what to load before processes are forked."""

from __future__ import annotations

from attack.inputs import archives, images, recipes, records, settings, weights

ROOMS = (records, settings, images, weights, archives, recipes)
ATTACKS = tuple(attack for room in ROOMS for attack in room.ATTACKS)


def warm() -> None:
    """Load and make what attempts need, so that a fork is ready at once."""
    for room in ROOMS:
        room.warm()
