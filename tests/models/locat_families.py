"""Every family with LocAt as a model of 2 blocks; as a script: what compiling does to their logits.

The script is a process of its own, as torch's compiler cannot look through the checks of shapes
that conftest.py installs. It prints the largest change of a logit by family, as JSON.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from nearsight.models.locat import add_locat
from nearsight.models.registry import create_model

GRID, WIDE = (24, 40), (56, 84)  # 3x5 patches of 8 pixels; Swin: 2x3 windows of 7x7 patches of 4
SMALL = {"depth": 2, "embed_dim": 26, "num_heads": 2, "num_classes": 11}
VIT = SMALL | {"image_size": GRID, "patch_size": 8}
SWIN = {"depths": (2,), "embed_dim": 26, "num_heads": (2,), "num_classes": 11, "image_size": WIDE}
FAMILIES: dict[str, Callable[[], nn.Module]] = {
    "ViT": lambda: create_model("locatvit_tiny", **VIT),
    "ViT with registers": lambda: create_model("locatvit_tiny", num_registers=4, **VIT),
    "RoPE ViT": lambda: create_model("locatvit_tiny_rope_mixed", **VIT | {"embed_dim": 24}),
    "Swin": lambda: create_model("locatswin_tiny", **SWIN),
    "Jumbo": lambda: create_model("locatjumbo_tiny", **VIT),
    "compact ViT": lambda: create_model("mu_locat", 11, image_size=GRID, patch_size=8),
    "stock ViT": lambda: add_locat(create_model("vit_tiny_patch16_224", **VIT)),
}
INPUT_WIDTH = {"source": "input", "isotropic": True, "strength": "auto"}
FIXED_LAPLACE = {"kernel": "laplace", "width": 1.5, "strength": "one"}
VARIANTS: dict[str, Callable[[], nn.Module]] = {
    "width from the input": lambda: create_model("locatvit_tiny", gaussian=INPUT_WIDTH, **VIT),
    "Laplace of fixed width": lambda: create_model("locatvit_tiny", gaussian=FIXED_LAPLACE, **VIT),
}


def built(name: str) -> nn.Module:
    """The same model every time, in evaluation; weights are moved so that no part is idle."""
    torch.manual_seed(0)
    model = (FAMILIES | VARIANTS)[name]()
    source = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=source) * 0.2)
    return model.eval()


def images_for(name: str, count: int) -> Tensor:
    size = WIDE if name == "Swin" else GRID
    return torch.randn(count, 3, *size, generator=torch.Generator().manual_seed(count))


@torch.no_grad()
def change_by_compiling(name: str, backend: str) -> float:
    model, images = built(name), images_for(name, 3)
    torch.compiler.reset()
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    return float((compiled(images) - model(images)).abs().max())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    backend, *names = sys.argv[1:]
    print(json.dumps({name: change_by_compiling(name, backend) for name in names}))
