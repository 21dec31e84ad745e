"""Run a model in evaluation mode without gradients, restore it, and iterate image batches."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from nearsight.core import UserError
from nearsight.measure.capture.refusals import refuse_scripted

BATCH_SIZE = 32  # into which images given as one tensor are split


def check_model(model: Any) -> None:
    """Raise a UserError unless it is a model."""
    if not isinstance(model, nn.Module):
        by_name = "; for the name of a model use measure_named" if isinstance(model, str) else ""
        raise UserError(f"expected a model (torch.nn.Module), got {model!r:.60}{by_name}")


def inner_model(model: nn.Module) -> nn.Module:
    """Return the model inside torch.compile, DataParallel and DistributedDataParallel wrappers.

    FSDP is left in place, because it gathers its weights in hooks of the wrapped modules.
    """
    check_model(model)
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
    """Run compiled modules, wherever they are in a model, as plain Python inside the block."""
    if "torch._dynamo" not in sys.modules:  # nothing is compiled yet, and importing it is slow
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield


_TURN = threading.RLock()  # modes, random numbers and compile settings belong to the process


@contextlib.contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[nn.Module]:
    """Yield the inner model in evaluation mode, without gradients and without torch.compile.

    Afterwards the modes of all modules and the random number generators are as before. Threads of a
    process take turns, because each would otherwise restore what another one has set.

    Raises:
        UserError: If a module is scripted, because attention inside TorchScript cannot be seen.
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
    """Return batches of a tensor, an array or a data set; take anything else for batches."""
    if isinstance(images, np.ndarray):
        images = torch.from_numpy(images)
    if isinstance(images, Tensor):
        return images.split(BATCH_SIZE)
    if isinstance(images, Dataset) and not isinstance(images, IterableDataset):
        return DataLoader(images, BATCH_SIZE)
    if not isinstance(images, Iterable) or isinstance(images, (str, Path)):
        raise UserError(
            "expected images as a tensor [n, 3, h, w], a Dataset or an iterable of batches, got "
            f"{images!r:.60}; a folder of images is read by measure_named"
        )
    return images


def image_batches(images: Any, model: nn.Module) -> Iterator[Tensor]:
    """Yield batches of images on the model's device and in its precision; skip empty batches.

    Args:
        images: A tensor or array [n, 3, height, width], a data set, or an iterable of batches. Of a
            batch that is a tuple or a dict, the first entry is taken.
        model: The model that will see the images.

    Raises:
        UserError: If a batch does not consist of floating-point images.
    """
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
                "images must come in batches of normalised floats [n, 3, height, width], "
                f"but a batch is {kind}"
            )
        if len(batch):
            yield batch if parameter is None else batch.to(parameter.device, parameter.dtype)
