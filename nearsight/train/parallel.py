"""Spread a model over processes by DDP or FSDP2, and gather whole tensors from shards."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from nearsight.core import World

Parallel = Literal["ddp", "fsdp"]


def parallelise(model: nn.Module, world: World, parallel: Parallel, compiled: bool) -> nn.Module:
    """Compile a model and distribute it over processes, and return the module to call instead.

    The module shares its weights with ``model``.
    """
    if world.size > 1 and parallel == "fsdp":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(world.device.type, (world.size,))
        for block in getattr(model, "blocks", []):
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    called: nn.Module = torch.compile(model) if compiled else model  # type: ignore[assignment]
    if world.size > 1 and parallel == "ddp":
        return nn.parallel.DistributedDataParallel(called)
    return called


def gather_whole(tensor: Tensor) -> Tensor:
    """Return a detached copy of the whole tensor on the CPU.

    If it is sharded, every process must call this.
    """
    from torch.distributed.tensor import DTensor

    full = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return full.detach().to("cpu", copy=True).contiguous()


def copy_into(target: Tensor, source: Tensor) -> None:
    """Overwrite a tensor, sharded or not, with a whole one."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    with torch.no_grad():
        if isinstance(target, DTensor):
            here = source.to(target.device)
            target.copy_(distribute_tensor(here, target.device_mesh, target.placements))
        else:
            target.copy_(source)
