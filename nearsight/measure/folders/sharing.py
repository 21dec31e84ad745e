"""Images shared out between processes, and one profile of them all.

Under torchrun every process measures its share of the images; values per image come back in the
order of the images, so that the result is that of a single process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch.distributed as dist

from nearsight.core import UserError
from nearsight.measure.metrics import Estimates
from nearsight.measure.profile import Profile
from nearsight.measure.readouts import Collection, merge_collections

Item = TypeVar("Item")


def place() -> tuple[int, int]:
    """Which process this is, and of how many."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def share_of(items: Sequence[Item]) -> Sequence[Item]:
    """This process's items: every n-th."""
    rank, num_processes = place()
    if len(items) < 2 * num_processes:
        raise UserError(
            f"expected at least 2 images for each of {num_processes} processes, got {len(items)}"
        )
    return items[rank::num_processes]


def gathered(profile: Profile) -> Profile:
    """The profile of the images of all processes, in their order (collective)."""
    _, num_processes = place()
    if num_processes == 1:
        return profile
    if profile.position_share is not None:
        raise UserError("position_share is measured in one process; leave it out of the metrics")
    parts: list[dict[str, list[np.ndarray]]] = [{} for _ in range(num_processes)]
    dist.all_gather_object(parts, {name: x.values for name, x in profile.metrics.items()})
    metrics = {
        name: Estimates([interleave([p[name][i] for p in parts]) for i in range(len(values))])
        for name, values in parts[0].items()
    }
    collected: list[Collection] = [{} for _ in range(num_processes)]
    dist.all_gather_object(collected, profile.readouts)
    readouts = merge_collections(collected, interleave)
    return replace(profile, metrics=metrics, readouts=readouts)


def interleave(shares: list[np.ndarray]) -> np.ndarray:
    """Undo ``share_of``: item i of share r was number r + i * len(shares)."""
    whole = np.empty((sum(map(len, shares)), *shares[0].shape[1:]), shares[0].dtype)
    for rank, share in enumerate(shares):
        whole[rank :: len(shares)] = share
    return whole
