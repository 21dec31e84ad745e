"""Describe the processes of a run: a single one, or as many as torchrun started.

Every process sees its share of the *global* batch. Losses are divided by the size of the global
batch, so that every sample has the same weight even if the shares are uneven. DDP's mean of the
processes' means would weigh the samples of small shares more.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from nearsight.core.errors import UserError

if TYPE_CHECKING:
    import torch

Value = TypeVar("Value")


@dataclass(frozen=True)
class World:
    """The rank of this process, the number of processes, and the device to use."""

    device: torch.device
    rank: int = 0
    size: int = 1

    @classmethod
    def current(cls, device: str) -> World:
        """Return the rank and size of the process group; without one, a world of one process."""
        import torch
        import torch.distributed as dist

        if dist.is_available() and dist.is_initialized():
            return cls(torch.device(device), dist.get_rank(), dist.get_world_size())
        return cls(torch.device(device))

    @property
    def is_main(self) -> bool:
        """Whether this process writes the files and prints."""
        return self.rank == 0

    def share(self, num: int) -> slice:
        """Return the part of ``num`` samples that belongs to this process.

        The parts of all processes are disjoint and together hold every sample, in order.
        """
        return slice(self.rank * num // self.size, (self.rank + 1) * num // self.size)

    def gather(self, value: Value) -> list[Value]:
        """Return the values of all processes in the order of their ranks.

        Every process of the group must call this.
        """
        if self.size == 1:
            return [value]
        import torch.distributed as dist

        values = [value] * self.size
        dist.all_gather_object(values, value)
        return values

    def total(self, values: list[float]) -> list[float]:
        """Return the sums over all processes, computed in float64 and equal on each of them.

        Every process of the group must call this.
        """
        if self.size == 1:
            return values
        import torch
        import torch.distributed as dist

        sums = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(sums)
        return sums.tolist()

    def sum_tensor(self, values: torch.Tensor) -> torch.Tensor:
        """Return the sum of a tensor over all processes; every process must call this."""
        if self.size == 1:
            return values
        import torch.distributed as dist

        sums = values.clone()
        dist.all_reduce(sums)
        return sums

    def wait(self) -> None:
        """Wait until every process of the group has reached this call."""
        if self.size > 1:
            import torch.distributed as dist

            dist.barrier()


def find_device(name: str) -> torch.device:
    """Return the device with a name, or choose one for ``auto``.

    >>> find_device("cpu")
    device(type='cpu')

    Args:
        name: ``cpu``, ``cuda``, ``cuda:1``, ``mps``, or ``auto``, which is CUDA if it is available
            and the CPU otherwise.

    Raises:
        UserError: If there is no such device, or this machine does not have it.
    """
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"{name!r} is not a device; use cpu, cuda, cuda:1, mps or auto") from None
    present = {"cpu": True, "mps": torch.backends.mps.is_available()}
    present["cuda"] = (device.index or 0) < torch.cuda.device_count()
    if not present.get(device.type, False):
        raise UserError(f"the device {name} is not available on this machine; use --device cpu")
    return device


@contextmanager
def join_processes(device_name: str) -> Iterator[World]:
    """Join the processes that torchrun started, and leave them when the block ends.

    Without torchrun the world consists of this process alone. A process group that the caller has
    already initialised is used and stays initialised.

    Args:
        device_name: The name of a device, as for ``find_device``. With several CUDA processes,
            each takes the device of its local rank.
    """
    import torch
    import torch.distributed as dist

    device = find_device(device_name)
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield World(device)
        return
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    ours = not dist.is_initialized()
    if ours:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield World(device, dist.get_rank(), size)
    finally:
        if ours:
            gc.collect()  # a wrapped model must not outlive the group
            dist.destroy_process_group()
