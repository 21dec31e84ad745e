"""Combine the measurements of several processes into one profile.

Under torchrun every process measures its share of the images (``World.share``). Their values per
image are joined in the order of the images, so the result equals that of a single process.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nearsight.core import UserError, World
from nearsight.measure.metrics import Estimates
from nearsight.measure.profile import Profile
from nearsight.measure.readouts import merge_collections


def gather_profile(profile: Profile, world: World) -> Profile:
    """Return the profile of the images of all processes, in order.

    Every process of the group must call this.

    Raises:
        UserError: If position_share was asked for, which needs all images in one process.
    """
    if world.size == 1:
        return profile
    if profile.position_share is not None:
        raise UserError(
            "position_share cannot be measured by several processes; leave it out of --metrics or "
            "start one process"
        )
    parts = world.gather({name: x.values for name, x in profile.metrics.items()})
    metrics = {
        name: Estimates([np.concatenate([p[name][i] for p in parts]) for i in range(len(values))])
        for name, values in parts[0].items()
    }
    readouts = merge_collections(world.gather(profile.readouts))
    return replace(profile, metrics=metrics, readouts=readouts)
