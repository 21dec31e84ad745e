"""Compare the time of ViT-Ti with LocAt with that of timm's plain ViT-Ti.

    python benchmarks/locat.py [--threads 2] [--seconds 60] [--release-memory]

The targets are 1.12x for the forward pass and 1.20x for a training step. ``locatvit_tiny`` and
``vit_tiny_patch16_224`` are timed as comparison.py says. GAug alone, PRR alone, and LocAt with the
kernel computed directly (N x N x 2 quotients per image and head, by autograd) are timed afterwards.
The largest difference between the direct kernel's logits and ours is printed.
"""

from __future__ import annotations

from types import MethodType

import torch
from comparison import compare, largest_difference, started
from torch import Tensor, nn

from nearsight.models.layers.grid import Grid
from nearsight.models.load.registry import create_model
from nearsight.models.parts.locat.gaussian import Gaussian

PLAIN, LOCAT = "vit_tiny_patch16_224", "locatvit_tiny"
TARGETS = {"forward": 1.12, "step": 1.20}


def direct(gaug: Gaussian, queries: Tensor, keys: Tensor, inputs: Tensor, grid: Grid) -> Tensor:
    """Compute the bias directly from its formula, with an offset per pair of patches and axis."""
    variance, strength = gaug.widths(queries, keys, inputs, grid)
    places = grid.coordinates().to(variance)  # [patch, axis]
    squares = (places[:, None] - places).square()  # [patch, patch, axis]
    exponents = -0.5 * squares / (variance[..., None, :] + gaug.eps)
    return strength[..., None] * exponents.sum(-1).exp()  # [batch, head, patch, patch]


def models() -> dict[str, nn.Module]:
    """Return the models to time, with equal weights where they have the same names."""
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


def main() -> None:
    setting = started(__doc__.splitlines()[0])
    found = models()
    apart = largest_difference(found["LocAt"], found["LocAt, direct kernel"], setting.images)
    print(f"direct kernel: logits differ by at most {apart:.1e}", flush=True)
    pair = ("plain", "LocAt")  # by themselves first: more turns, closer to each other
    others = ("plain", *(name for name in found if name not in pair))
    compare(found, [pair, others], "LocAt", TARGETS, setting)


if __name__ == "__main__":
    main()
