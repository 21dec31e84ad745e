"""A model made ready to be watched, its images, and the model left as it was found."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from nearsight.core import UserError
from nearsight.measure.capture.refusals import refuse_scripted

BATCH_SIZE = 32  # of images given as one tensor


def inner_model(model: nn.Module) -> nn.Module:
    """The model inside torch.compile, DataParallel or DistributedDataParallel wrappers.

    FSDP gathers its weights in hooks of the wrapped modules, so it is left as it is.
    """
    wrappers = (nn.DataParallel, nn.parallel.DistributedDataParallel)
    while True:
        if isinstance(model, wrappers):
            model = model.module
        elif hasattr(model, "_orig_mod"):  # torch.compile
            model = model._orig_mod  # type: ignore[assignment]
        else:
            return model


@contextlib.contextmanager
def eager() -> Iterator[None]:
    """Compiled modules, wherever they are in a model, run as plain Python."""
    if "torch._dynamo" not in sys.modules:  # then nothing is compiled, and its import is slow
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield


_TURN = threading.RLock()  # modes, torch's random numbers and compile settings are the process's


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[nn.Module]:
    """The inner model in evaluation mode, without gradients; modes and RNG are put back after.

    Threads of a process take turns: each would otherwise put back what another one has set.
    """
    inner = inner_model(model)
    refuse_scripted(inner)
    with _TURN:
        modes = {module: module.training for module in inner.modules()}
        inner.eval()
        try:
            with torch.no_grad(), torch.random.fork_rng(), eager():
                yield inner
        finally:
            for module, training in modes.items():
                module.training = training


def _batches(images: Any) -> Iterable[Any]:
    """Batches of what a user gave: a tensor, an array, a data set, or batches already."""
    if isinstance(images, np.ndarray):
        images = torch.from_numpy(images)
    if isinstance(images, Tensor):
        return images.split(BATCH_SIZE)
    if isinstance(images, Dataset) and not isinstance(images, IterableDataset):
        return DataLoader(images, BATCH_SIZE)
    return images


def image_batches(images: Any, model: nn.Module) -> Iterator[Tensor]:
    """Batches on the model's device and in its precision."""
    parameter = next((x for x in model.parameters() if x.is_floating_point()), None)
    for batch in _batches(images):
        if isinstance(batch, dict):
            batch = next(iter(batch.values()))
        elif isinstance(batch, (tuple, list)):
            batch = batch[0]
        if not isinstance(batch, Tensor) or batch.ndim != 4 or not batch.is_floating_point():
            kind = (
                f"{batch.dtype} {list(batch.shape)}" if isinstance(batch, Tensor) else type(batch)
            )
            raise UserError(
                f"expected batches of normalised images, float [n, 3, h, w], got {kind}"
            )
        if len(batch):
            yield batch if parameter is None else batch.to(parameter.device, parameter.dtype)
