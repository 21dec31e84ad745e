"""Compare the time of a training step of ``compact`` with that of its linear layers' products.

    python benchmarks/train_step.py [--threads 1] [--release-memory]

The target is 1.5x. A step has batch 128 in float32 on a CPU: forward, cross-entropy, backward and
fused AdamW. It is compared with only the matrix products of qkv, projection, MLP in and MLP out of
8 blocks (M = 128 x 65): forward, input gradient and weight gradient. All are timed in turns within
one run, and the fastest turn of each counts. With 2 threads (the default) times are wall-clock,
which needs an idle machine; with ``--threads 1`` they are CPU time of the thread, which other
processes change less. ``--release-memory`` does not call ``keep_freed_memory``.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from turns import best_times

from nearsight.core.memory import keep_freed_memory
from nearsight.models.layers.attention import SelfAttention, attention_weights
from nearsight.models.load.registry import create_model

BATCH, TOKENS, NUM_CLASSES, TARGET = 128, 65, 100, 1.5
WIDTH, MLP_WIDTH, DEPTH = 192, 384, 8
MAX_SECONDS = 75

Attend = Callable[[Tensor, Tensor, Tensor, float], Tensor]


def linear_products() -> Callable[[], None]:
    """Compute the three products of every linear layer of the blocks."""
    pairs = [(WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, MLP_WIDTH), (MLP_WIDTH, WIDTH)]
    rows = BATCH * TOKENS
    layers = [
        (torch.randn(rows, given), torch.randn(made, given), torch.randn(rows, made))
        for given, made in pairs
    ]

    def products() -> None:
        for _ in range(DEPTH):
            for x, weight, grad in layers:
                torch.mm(x, weight.t())
                torch.mm(grad, weight)
                torch.mm(grad.t(), x)

    return products


def plain_forward(layer: SelfAttention, compute: Attend) -> Callable[[Tensor], Tensor]:
    """Compute self-attention with autograd, around any way to attend."""

    def forward(x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        qkv = layer.qkv(x).reshape(batch, tokens, 3, layer.num_heads, width // layer.num_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)  # each [batch, head, token, head width]
        out = compute(q, k, v, layer.scale)
        return layer.proj(out.transpose(1, 2).reshape(batch, tokens, width))

    return forward


def training_step(compute: Attend | None = None) -> Callable[[], None]:
    """Take one step of ``compact``, or of it with plain attention around ``compute``."""
    torch.manual_seed(0)
    model = create_model("compact", NUM_CLASSES)
    for block in model.blocks if compute else ():
        block.attn.forward = plain_forward(block.attn, compute)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.05, fused=True)
    images, labels = torch.randn(BATCH, 3, 32, 32), torch.randint(NUM_CLASSES, (BATCH,))

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return step


def fused(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, scale=scale)


def explicit(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    return attention_weights(q, k, scale) @ v


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--release-memory", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    kept = not arguments.release_memory and keep_freed_memory()
    clock = time.thread_time if arguments.threads == 1 else time.perf_counter
    busy = os.getloadavg()[0]
    best = best_times(
        {
            "linear products": linear_products(),
            "step": training_step(),
            "step, plain fused": training_step(fused),
            "step, plain explicit": training_step(explicit),
        },
        clock,
        MAX_SECONDS,
    )
    products = best["linear products"]
    what = "CPU time" if arguments.threads == 1 else "wall-clock"
    print(f"compact, batch {BATCH}, {arguments.threads} threads, {what}, freed memory kept: {kept}")
    for name, seconds in best.items():
        print(f"{name:22s}{seconds * 1e3:8.0f} ms{seconds / products:7.2f}x")
    verdict = "reached" if best["step"] <= TARGET * products else "missed"
    print(f"target {TARGET}x: {verdict}")
    if busy > 0.5:
        print(f"load average {busy:.1f} at the start: other processes disturbed this measurement")


if __name__ == "__main__":
    main()
