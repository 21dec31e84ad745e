"""LocAt on ViT-Ti against timm's plain one; targets: forward 1.12x, training step 1.20x.

    python benchmarks/locat.py [--threads 2] [--seconds 60] [--release-memory]

``locatvit_tiny`` and ``vit_tiny_patch16_224``, batch 16, 224 pixels, float32, CPU. Forward: in
evaluation without gradients. Step: forward, cross-entropy, backward and fused AdamW. Beside it GAug
alone, PRR alone, and LocAt with the kernel computed directly: N x N x 2 quotients per image and
head, by autograd. They take turns within one run, LocAt and the plain model by themselves first;
the best of each counts. The largest difference of the direct kernel's logits to ours is printed.
With 2 threads (the default) times are wall-clock, which needs an idle machine; with ``--threads 1``
they are CPU time of the thread, which other processes disturb less. ``--release-memory`` leaves out
``keep_freed_memory``.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from types import MethodType

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from turns import best_times

from nearsight.models.allocator import keep_freed_memory
from nearsight.models.gaussian import Gaussian
from nearsight.models.grid import Grid
from nearsight.models.registry import create_model

PLAIN, LOCAT, BATCH, SIZE, NUM_CLASSES = "vit_tiny_patch16_224", "locatvit_tiny", 16, 224, 1000
TARGETS = {"forward": 1.12, "step": 1.20}


def direct(gaug: Gaussian, queries: Tensor, keys: Tensor, inputs: Tensor, grid: Grid) -> Tensor:
    """The bias as its formula reads: an offset per pair of patches and axis."""
    variance, strength = gaug.widths(queries, keys, inputs, grid)
    places = grid.coordinates().to(variance)  # [patch, axis]
    squares = (places[:, None] - places).square()  # [patch, patch, axis]
    exponents = -0.5 * squares / (variance[..., None, :] + gaug.eps)
    return strength[..., None] * exponents.sum(-1).exp()  # [batch, head, patch, patch]


def models() -> dict[str, nn.Module]:
    """What is timed, with equal weights where they are the same."""
    torch.manual_seed(0)
    found = {
        "plain": create_model(PLAIN),
        "GAug only": create_model(LOCAT, refine=False),
        "PRR only": create_model(LOCAT, gaussian=False),
        "LocAt": create_model(LOCAT),
        "LocAt, direct kernel": create_model(LOCAT),
    }
    found["LocAt, direct kernel"].load_state_dict(found["LocAt"].state_dict())
    for module in found["LocAt, direct kernel"].modules():
        if isinstance(module, Gaussian):
            module.forward = MethodType(direct, module)
    return found


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


def difference(found: dict[str, nn.Module], images: Tensor) -> float:
    ours, theirs = (found[name].eval() for name in ("LocAt", "LocAt, direct kernel"))
    with torch.inference_mode():
        return float((ours(images) - theirs(images)).abs().max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60, help="of each of four groups")
    parser.add_argument("--release-memory", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    kept = not given.release_memory and keep_freed_memory()
    clock = time.thread_time if given.threads == 1 else time.perf_counter
    found = models()
    images, labels = torch.randn(BATCH, 3, SIZE, SIZE), torch.randint(NUM_CLASSES, (BATCH,))
    what = "CPU time" if given.threads == 1 else "wall-clock"
    print(
        f"batch {BATCH}, {SIZE} pixels, {given.threads} threads, {what}, freed memory kept: {kept},"
        f" load average {os.getloadavg()[0]:.1f}, torch {torch.__version__}"
    )
    print(f"direct kernel: logits differ by at most {difference(found, images):.1e}", flush=True)
    timed = {
        "forward": {name: forward(model, images) for name, model in found.items()},
        "step": {name: training_step(model, images, labels) for name, model in found.items()},
    }
    pair = ("plain", "LocAt")  # by themselves first: more turns, closer to each other
    others = ("plain", *(name for name in found if name not in pair))
    for kind, runs in timed.items():
        for names in (pair, others):
            best = best_times({name: runs[name] for name in names}, clock, given.seconds)
            for name, seconds in best.items():
                ratio = seconds / best["plain"]
                target = f"  target {TARGETS[kind]:.2f}x" if name == "LocAt" else ""
                line = f"{kind:8s}{name:22s}{seconds * 1e3:8.0f} ms{ratio:7.3f}x{target}"
                print(line, flush=True)


if __name__ == "__main__":
    main()
