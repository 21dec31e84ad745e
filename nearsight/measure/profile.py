"""Measure every attention head of a model over many images, one layer of one batch at a time.

``attention_profile`` takes any model and any batches and gives a number per image, head and layer.
``measure_run`` does that for a run folder, on the same test images for every protocol, and writes
what it found to ``measure.json`` (see summary.py for its contents).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from nearsight.data import draws
from nearsight.measure.capture import AttentionCall, AttentionCapture, patch_geometry
from nearsight.measure.distance import mean_attention_distance, patch_attention
from nearsight.measure.entropy import attention_entropy
from nearsight.measure.mass import self_mass
from nearsight.models.grid import Grid

NUM_IMAGES = 5000  # the paper's, or all there are
IMAGE_SEED = 0  # which images: the same for every protocol and every seed
METRICS = ("mad", "entropy", "self_mass")


@dataclass(frozen=True)
class Profile:
    """Every metric per image, layer by layer: float64 [image, head] on the CPU."""

    grid: Grid
    num_prefix: int
    mad: tuple[Tensor, ...]
    entropy: tuple[Tensor, ...]
    self_mass: tuple[Tensor, ...]

    @property
    def num_images(self) -> int:
        return len(self.mad[0])


def attention_profile(
    model: nn.Module,
    batches: Iterable[Tensor],
    grid: Grid | None = None,
    num_prefix: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Profile:
    """MAD (grid diagonals), entropy and self-mass of every head, per image.

    ``batches`` are what the model takes, on its device. Grid and number of prefix tokens are the
    model's own unless given. ``progress`` is told the number of images done after every batch.

    >>> from nearsight.models.registry import create_model
    >>> profile = attention_profile(create_model("mu").eval(), [torch.zeros(5, 3, 32, 32)])
    >>> profile.num_images, len(profile.mad)
    (5, 2)
    """
    if model.training:
        raise ValueError("expected a model in evaluation mode: call model.eval() before measuring")
    if grid is None or num_prefix is None:
        grid, num_prefix = patch_geometry(model)
    found: list[list[tuple[Tensor, ...]]] = []  # [batch][layer][metric]
    num_images = 0
    for images in batches:
        layers: list[tuple[Tensor, ...]] = []
        consumer = _layer_consumer(layers, grid, num_prefix)
        with torch.inference_mode(), AttentionCapture(consumer):
            model(images)
        if not layers:
            raise ValueError(
                f"expected a model whose attention goes through attend or torch's fused attention, "
                f"got {type(model).__name__}, in which no such call was seen"
            )
        found.append(layers)
        num_images += len(images)
        if progress:
            progress(num_images)
    if not found:
        raise ValueError("expected at least one batch of images, got none")
    by_layer = list(zip(*found, strict=True))  # [layer][batch][metric]
    by_metric = [
        tuple(torch.cat([metrics[index] for metrics in layer]) for layer in by_layer)
        for index in range(len(METRICS))
    ]
    return Profile(grid, num_prefix, *by_metric)


def _layer_consumer(
    layers: list[tuple[Tensor, ...]], grid: Grid, num_prefix: int
) -> Callable[[AttentionCall], None]:
    """Appends the metrics of each attention call; the attention itself dies with the call."""
    num_tokens = num_prefix + grid.num_patches

    def consume(call: AttentionCall) -> None:
        sizes = call.queries.shape[-2], call.keys.shape[-2]
        if call.queries.ndim != 4 or sizes != (num_tokens, num_tokens):
            raise ValueError(
                f"expected attention between the {num_tokens} tokens of {num_prefix} prefix tokens "
                f"and a grid of {grid}, got {sizes[0]} queries and {sizes[1]} keys "
                f"in layer {call.layer}"
            )
        attention = patch_attention(call.weights().double(), num_prefix)
        metrics = (
            mean_attention_distance(attention, grid),
            attention_entropy(attention),
            self_mass(attention),
        )
        layers.append(tuple(metric.cpu() for metric in metrics))

    return consume


def chosen_images(num_available: int, num_images: int | None = None) -> np.ndarray:
    """Sorted indices of the test images to measure: a function of the two numbers alone."""
    wanted = min(NUM_IMAGES, num_available) if num_images is None else num_images
    if not 2 <= wanted <= num_available:
        raise ValueError(
            f"expected between 2 and {num_available} images (the test set has {num_available}), "
            f"got {wanted}"
        )
    order = draws.permutation("measured images", IMAGE_SEED, length=num_available)
    return order[:wanted].sort().values.numpy()


def measure_run(
    path: Path,
    num_images: int | None = None,
    device: str = "cpu",
    data_root: Path | None = None,
    batch_size: int = 64,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Measure the best weights of a finished run and write ``measure.json`` into its folder.

    ``num_images`` test images, min(5,000, all) by default, chosen by a fixed seed: the same images
    for every protocol. ``progress`` is told (images done, images in all).
    """
    from nearsight.data.catalog import load_dataset
    from nearsight.measure.summary import measurement
    from nearsight.run import MEASURE, hardware, load_run, read_record, write_json

    path = Path(path)
    record = read_record(path)
    if record["status"] != "finished":
        raise ValueError(
            f"expected a finished run, but training in {path} has not finished; "
            "start its train command again, it continues where it stopped"
        )
    run = load_run(path, device)
    dataset = load_dataset(run.protocol.data, data_root)
    if dataset.hash != record["data"]["hash"]:
        raise ValueError(
            f"expected the data this run was trained on ({record['data']['name']}, hash "
            f"{record['data']['hash']}), got {dataset.name} with hash {dataset.hash}"
        )
    chosen = chosen_images(len(dataset.test.images), num_images)

    def batches() -> Iterator[Tensor]:
        for start in range(0, len(chosen), batch_size):
            images = dataset.test.images[chosen[start : start + batch_size]]
            yield run.transform(torch.from_numpy(images)).to(device)

    def report(done: int) -> None:
        if progress:
            progress(done, len(chosen))

    began = time.perf_counter()
    profile = attention_profile(run.model, batches(), progress=report)
    seconds = time.perf_counter() - began
    contents = measurement(profile) | {
        "num_available": len(dataset.test.images),
        "image_seed": IMAGE_SEED,
        "split": "test",
        "data": {"name": dataset.name, "hash": dataset.hash},
        "seconds": seconds,
        "hardware": hardware(device),
    }
    write_json(path / MEASURE, contents)
    return path / MEASURE
