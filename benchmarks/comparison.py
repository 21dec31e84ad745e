"""Compare the time of models with that of a plain one: forward pass and training step.

The batch has 16 images of 224 pixels, in float32 on a CPU. The forward pass is in evaluation mode
without gradients; a step is forward, cross-entropy, backward and fused AdamW. The models of a group
take turns, and the fastest turn of each counts. With 2 threads (the default) times are wall-clock,
which needs an idle machine; with ``--threads 1`` they are CPU time of the thread, which other
processes change less. ``--release-memory`` does not call ``keep_freed_memory``.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from turns import best_times

from nearsight.core.memory import keep_freed_memory

BATCH, SIZE, NUM_CLASSES = 16, 224, 1000


@dataclass(frozen=True)
class Setting:
    """The clock, the number of threads, and how long to time."""

    images: Tensor
    labels: Tensor
    clock: Callable[[], float]
    seconds: float  # of each group


def started(description: str) -> Setting:
    """Read the command line, set the threads, and print the setting."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60, help="how long to time each group")
    parser.add_argument("--release-memory", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    kept = not given.release_memory and keep_freed_memory()
    alone = given.threads == 1
    print(
        f"batch {BATCH}, {SIZE} pixels, {given.threads} threads, "
        f"{'CPU time' if alone else 'wall-clock'}, freed memory kept: {kept}, "
        f"load average {os.getloadavg()[0]:.1f}, torch {torch.__version__}",
        flush=True,
    )
    images, labels = torch.randn(BATCH, 3, SIZE, SIZE), torch.randint(NUM_CLASSES, (BATCH,))
    return Setting(images, labels, time.thread_time if alone else time.perf_counter, given.seconds)


def forward(model: nn.Module, images: Tensor) -> Callable[[], None]:
    def run() -> None:
        model.eval()
        with torch.inference_mode():
            model(images)

    return run


def training_step(model: nn.Module, images: Tensor, labels: Tensor) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.05, fused=True)

    def run() -> None:
        model.train()
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return run


def largest_difference(model: nn.Module, other: nn.Module, images: Tensor) -> float:
    """Return the largest difference between the logits of two models in evaluation mode."""
    with torch.inference_mode():
        return float((model.eval()(images) - other.eval()(images)).abs().max())


def compare(
    found: Mapping[str, nn.Module],
    groups: Sequence[Sequence[str]],
    ours: str,
    targets: Mapping[str, float],
    setting: Setting,
) -> None:
    """Print times relative to the first model of each group; ``targets`` are those of ``ours``."""
    images, labels = setting.images, setting.labels
    timed = {
        "forward": {name: forward(model, images) for name, model in found.items()},
        "step": {name: training_step(model, images, labels) for name, model in found.items()},
    }
    for kind, runs in timed.items():
        for names in groups:
            best = best_times({name: runs[name] for name in names}, setting.clock, setting.seconds)
            for name, seconds in best.items():
                ratio = seconds / best[names[0]]
                target = f"  target {targets[kind]:.2f}x" if name == ours else ""
                line = f"{kind:8s}{name:22s}{seconds * 1e3:8.0f} ms{ratio:7.3f}x{target}"
                print(line, flush=True)
