"""One profile of the images that several processes measured.

Under torchrun every process measures its share of the images (``World.share``); values per image
come back in the order of the images, so that the result is that of a single process.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nearsight.core import UserError, World
from nearsight.measure.metrics import Estimates
from nearsight.measure.profile import Profile
from nearsight.measure.readouts import merge_collections


def gather_profile(profile: Profile, world: World) -> Profile:
    """Return the profile of the images of all processes, in their order (collective)."""
    if world.size == 1:
        return profile
    if profile.position_share is not None:
        raise UserError("position_share is measured in one process; leave it out of the metrics")
    parts = world.gather({name: x.values for name, x in profile.metrics.items()})
    metrics = {
        name: Estimates([np.concatenate([p[name][i] for p in parts]) for i in range(len(values))])
        for name, values in parts[0].items()
    }
    readouts = merge_collections(world.gather(profile.readouts))
    return replace(profile, metrics=metrics, readouts=readouts)
