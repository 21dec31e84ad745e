"""Compare the time of measuring every head of ViT-Ti with that of its plain fused forward pass.

    python benchmarks/measure.py [--threads 2] [--sizes 224 384 512] [--memory]

The target is 1.20x at 224 pixels. The model is ``vit_tiny_patch16_224`` (batch 16, float32, CPU, 4
batches, 2 at 1,024 pixels), measured with the default metrics (MAD, entropy, self-mass, radius
masses), set-up and proof included. Two other ways are timed beside it: the same without the
compiled kernel, and what others do, forward hooks on unfused attention with metrics in float64. All
take turns within one run. The time of a way is the sum of the fastest times of every block of the
model; otherwise a long measurement would need a longer moment without other processes than a short
one. The script also prints the median over the turns, each compared with the plain forward pass
just before it, and the largest difference from float64 (random weights, images of noise).
``--memory`` starts a process for the plain forward pass and one for the measurement at each size,
and prints how much more memory the second needs at its peak. The ratios need an idle machine.
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from unittest import mock

import torch
from torch import Tensor, nn

from nearsight.measure.maps import capture_attention
from nearsight.measure.metrics import (
    attention_entropy,
    mean_attention_distance,
    patch_attention,
    self_mass,
)
from nearsight.measure.profile.profile import measure_model
from nearsight.measure.rows import kernel
from nearsight.models.layers.grid import Grid
from nearsight.models.load.registry import create_model
from nearsight.native import load_library

NAME, BATCH, NUM_BATCHES, PATCH = "vit_tiny_patch16_224", 16, 4, 16
TARGETS = {224: 1.20, 384: 1.25, 512: 1.35, 1024: 1.35}
TURNS = {224: 30, 384: 16, 512: 12, 1024: 2}
SLOW_TURNS = 2  # of what stands beside
GIGA = 2**30


def model_and_images(size: int, num_batches: int) -> tuple[nn.Module, list[Tensor]]:
    torch.manual_seed(0)
    model = create_model(NAME, image_size=size).eval()
    for block in model.blocks:
        nn.init.normal_(block.attn.qkv.weight, std=0.1)  # heads far from uniform
    return model, [torch.randn(BATCH, 3, size, size) for _ in range(num_batches)]


def plain(model: nn.Module, batches: Iterable[Tensor]) -> None:
    with torch.inference_mode():
        for batch in batches:
            model(batch)


def measured_in_torch(model: nn.Module, batches: Iterable[Tensor]) -> None:
    """Measure without the compiled kernel."""
    with mock.patch.object(kernel, "load_library", return_value=None):
        measure_model(model, batches)


def hooked(model: nn.Module, batches: Iterable[Tensor], grid: Grid) -> None:
    """Measure by hooks on unfused attention, with metrics in float64, one layer at a time."""

    def measure(_: nn.Module, given: tuple, output: Tensor) -> None:
        attention = patch_attention(output.double(), 1)
        mean_attention_distance(attention, grid)
        attention_entropy(attention)
        self_mass(attention)

    layers = [block.attn for block in model.blocks]
    handles = [layer.attn_drop.register_forward_hook(measure) for layer in layers]
    for layer in layers:
        layer.fused_attn = False
    plain(model, batches)
    for layer, handle in zip(layers, handles):
        layer.fused_attn = True
        handle.remove()


def largest_error(model: nn.Module, images: Tensor, grid: Grid) -> float:
    """Return the largest error of a float32 measurement against float64 metrics."""
    profile = measure_model(model, images)
    worst = 0.0
    with torch.no_grad(), capture_attention(model) as maps:
        model(images)
    for layer, whole in enumerate(maps):
        attention = patch_attention(whole.double(), 1)
        found = {
            "mad": mean_attention_distance(attention, grid),
            "entropy": attention_entropy(attention),
            "self_mass": self_mass(attention),
        }
        for name, values in found.items():
            error = abs(profile.metrics[name].values[layer] - values.numpy()).max()
            worst = max(worst, float(error))
    return worst


def segments(
    run: Callable[[Iterable[Tensor]], object], model: nn.Module, batches: list[Tensor]
) -> list[float]:
    """Return the seconds from block to block of the model, with set-up and end."""
    moments = [time.perf_counter()]

    def watch(*_: object) -> None:
        moments.append(time.perf_counter())

    handles = [block.register_forward_hook(watch) for block in model.blocks]
    run(iter(batches))
    watch()
    for handle in handles:
        handle.remove()
    return [after - before for before, after in itertools.pairwise(moments)]


def in_turns(
    timed: dict[str, Callable[[Iterable[Tensor]], object]],
    model: nn.Module,
    batches: list[Tensor],
    turns: int,
) -> dict[str, list[list[float]]]:
    """Return the segments of every turn; the first two ways take all turns, the others a few."""
    found: dict[str, list[list[float]]] = {name: [] for name in timed}
    for turn in range(turns):
        for number, (name, run) in enumerate(timed.items()):
            if number < 2 or turn < SLOW_TURNS:
                found[name].append(segments(run, model, batches))
    return found


def compare_times(size: int) -> None:
    grid = Grid(size // PATCH, size // PATCH)
    model, batches = model_and_images(size, NUM_BATCHES if size < 1024 else 2)
    timed: dict[str, Callable[[Iterable[Tensor]], object]] = {
        "plain": lambda given: plain(model, given),
        "measured": lambda given: measure_model(model, given),
    }
    if size < 1024:
        timed["in torch"] = lambda given: measured_in_torch(model, given)
        timed["hooks"] = lambda given: hooked(model, given, grid)
    found = in_turns(timed, model, batches, TURNS.get(size, 3))
    best = {name: sum(map(min, zip(*turns))) for name, turns in found.items()}
    pairs = zip(found["measured"], found["plain"])
    median = statistics.median(sum(ours) / sum(theirs) for ours, theirs in pairs)
    error = largest_error(model, batches[0][:2], grid)
    others = (f"{name} {best[name] / best['plain']:.2f}x" for name in list(best)[2:])
    print(
        f"{size:5d} pixels {grid.num_patches + 1:5d} tokens  plain {best['plain']:6.2f} s  "
        f"measured {best['measured'] / best['plain']:.3f}x, median {median:.3f}x "
        f"(target {TARGETS.get(size, 1.35):.2f}x)  {'  '.join(others)}  error {error:.1e}",
        flush=True,
    )


def compare_memory(size: int) -> None:
    peaks = {}
    for way in ("plain", "measured"):
        command = [sys.executable, __file__, "--sizes", str(size), "--peak", way]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        peaks[way] = int(told.split()[-1])
    layer = BATCH * 3 * ((size // PATCH) ** 2 + 1) ** 2 * 4
    extra = peaks["measured"] - peaks["plain"]
    print(
        f"{size:5d} pixels  extra peak {extra / GIGA:.3f} GiB, {extra / layer:.2f} of one layer's "
        f"attention ({layer / GIGA:.2f} GiB)",
        flush=True,
    )


def print_peak(way: str, size: int) -> None:
    """Print the peak resident memory of one batch in this process, in bytes."""
    model, batches = model_and_images(size, 1)
    if way == "plain":
        plain(model, batches)
    else:
        measure_model(model, batches)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sizes", type=int, nargs="+", default=[224, 384, 512])
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--peak", choices=("plain", "measured"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    if given.peak:
        print_peak(given.peak, given.sizes[0])
        return
    print(
        f"{given.threads} threads, load average {os.getloadavg()[0]:.2f}, torch {torch.__version__}"
        f", {'compiled kernel' if load_library() else 'no compiled kernel'}"
    )
    for size in given.sizes:
        compare_memory(size) if given.memory else compare_times(size)


if __name__ == "__main__":
    main()
