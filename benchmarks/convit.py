"""Compare the time of ConViT-Ti with that of timm's DeiT-Ti.

    python benchmarks/convit.py [--threads 2] [--seconds 60] [--release-memory]

The targets are 1.15x for the forward pass and for a training step. ``convit_tiny`` and
``deit_tiny_patch16_224`` are timed as comparison.py says. timm's own ConViT-Ti with the same
weights, whose attention is a matrix of patches x patches, is timed beside them, and the largest
difference between its logits and ours is printed.
"""

from __future__ import annotations

import torch
from comparison import compare, largest_difference, started
from torch import nn

from nearsight.models.load.registry import create_model

PLAIN, OURS, THEIRS = "DeiT", "ConViT", "timm's ConViT"
TARGETS = {"forward": 1.15, "step": 1.15}


def models() -> dict[str, nn.Module]:
    """Return the models to time, both ConViTs with equal weights."""
    torch.manual_seed(0)
    found = {
        PLAIN: create_model("deit_tiny_patch16_224"),
        OURS: create_model("convit_tiny"),
        THEIRS: create_model("timm/convit_tiny"),
    }
    found[OURS].load_state_dict(found[THEIRS].state_dict())
    return found


def main() -> None:
    setting = started(__doc__.splitlines()[0])
    found = models()
    apart = largest_difference(found[OURS], found[THEIRS], setting.images)
    print(f"{THEIRS}: logits differ by at most {apart:.1e}", flush=True)
    groups = [(PLAIN, OURS), (PLAIN, THEIRS)]  # ours by itself first: closer to each other
    compare(found, groups, OURS, TARGETS, setting)


if __name__ == "__main__":
    main()
