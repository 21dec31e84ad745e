"""ConViT-Ti against timm's DeiT-Ti; targets: forward 1.15x, training step 1.15x.

    python benchmarks/convit.py [--threads 2] [--seconds 60] [--release-memory]

``convit_tiny`` and ``deit_tiny_patch16_224``, timed as comparison.py says. Beside them timm's own
ConViT-Ti with the same weights, which makes its attention as matrices of patches x patches. The
largest difference of its logits to ours is printed.
"""

from __future__ import annotations

import torch
from comparison import compare, largest_difference, started
from torch import nn

from nearsight.models.load.registry import create_model

PLAIN, OURS, THEIRS = "DeiT", "ConViT", "timm's ConViT"
TARGETS = {"forward": 1.15, "step": 1.15}


def models() -> dict[str, nn.Module]:
    """What is timed, both ConViTs with equal weights."""
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
