"""The processes of a run: one, or as many as torchrun started.

Samples are dealt out so that every process sees its share of the *global* batch; losses are
divided by the global batch, so that uneven shares weigh by samples (DDP's mean of means would
not).
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
    """This process among its peers."""

    device: torch.device
    rank: int = 0
    size: int = 1

    @classmethod
    def current(cls, device: str) -> World:
        """Return this process's place in the group that it has joined; alone without one."""
        import torch
        import torch.distributed as dist

        if dist.is_available() and dist.is_initialized():
            return cls(torch.device(device), dist.get_rank(), dist.get_world_size())
        return cls(torch.device(device))

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    def share(self, num: int) -> slice:
        """This process's part of ``num`` samples; the parts are disjoint, ordered and complete."""
        return slice(self.rank * num // self.size, (self.rank + 1) * num // self.size)

    def gather(self, value: Value) -> list[Value]:
        """Return the values of all processes, in the order of their ranks (collective)."""
        if self.size == 1:
            return [value]
        import torch.distributed as dist

        values = [value] * self.size
        dist.all_gather_object(values, value)
        return values

    def total(self, values: list[float]) -> list[float]:
        """The sums over all processes in float64, the same on each of them."""
        if self.size == 1:
            return values
        import torch
        import torch.distributed as dist

        sums = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(sums)
        return sums.tolist()

    def wait(self) -> None:
        if self.size > 1:
            import torch.distributed as dist

            dist.barrier()


def find_device(name: str) -> torch.device:
    """``auto`` is CUDA where there is one; UserError when the device is unknown or absent."""
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"expected a device like cpu, cuda, cuda:1 or mps, got {name!r}") from None
    present = {"cpu": True, "mps": torch.backends.mps.is_available()}
    present["cuda"] = (device.index or 0) < torch.cuda.device_count()
    if not present.get(device.type, False):
        raise UserError(f"device {name} is not available on this machine; --device cpu always is")
    return device


@contextmanager
def joined(device_name: str) -> Iterator[World]:
    """Join the processes torchrun started, or stay alone; a group of the caller's is kept."""
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
