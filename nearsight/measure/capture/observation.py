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

BATCH_SIZE = 32  # images given as one tensor are split into batches of this size


def check_model(model: Any) -> None:
    """Raise a UserError unless it is a model."""
    if not isinstance(model, nn.Module):
        by_name = "; to measure a model by its name, use measure_named" * isinstance(model, str)
        raise UserError(f"expected a model (torch.nn.Module), but got {model!r:.60}{by_name}")


def inner_model(model: nn.Module) -> nn.Module:
    """Return the model inside torch.compile, DataParallel and DistributedDataParallel wrappers.

    A wrapper of FSDP stays, because its hooks gather the weights before each forward.

    Raises:
        UserError: If this is not a model.
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
    """Run modules compiled by torch.compile as plain Python inside the ``with`` block."""
    if "torch._dynamo" not in sys.modules:  # nothing is compiled yet, and importing it is slow
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield


_TURN = threading.RLock()  # random numbers and compile settings are shared by all threads


@contextlib.contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[nn.Module]:
    """Yield the inner model in evaluation mode, without gradients and without torch.compile.

    Afterwards the modes of all modules and the random number generators are restored. Threads of a
    process take turns, because one thread could otherwise restore the settings that another needs.

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
    """Cut a tensor, an array or a data set into batches; return any other iterable unchanged."""
    if isinstance(images, np.ndarray):
        images = torch.from_numpy(images)
    if isinstance(images, Tensor):
        return images.split(BATCH_SIZE)
    if isinstance(images, Dataset) and not isinstance(images, IterableDataset):
        return DataLoader(images, BATCH_SIZE)
    if not isinstance(images, Iterable) or isinstance(images, (str, Path)):
        raise UserError(
            "images must be a tensor [n, 3, height, width], a Dataset or an iterable of batches, "
            f"but they are {images!r:.60}; to read a folder of images, use measure_named"
        )
    return images


def image_batches(images: Any, model: nn.Module) -> Iterator[Tensor]:
    """Yield batches of images on the model's device and in its precision; skip empty batches.

    Args:
        images: A tensor or array [n, 3, height, width], a data set, or an iterable of batches. If a
            batch is a tuple or a dictionary, its first entry must be the images.
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
                f"{batch.dtype} {list(batch.shape)}"
                if isinstance(batch, Tensor)
                else type(batch).__name__
            )
            raise UserError(
                "images must come in batches of normalised floats [n, 3, height, width], "
                f"but a batch is {kind}"
            )
        if len(batch):
            yield batch if parameter is None else batch.to(parameter.device, parameter.dtype)
