"""Every family with LocAt as a model of 2 blocks."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from nearsight.models.load.registry import create_model
from nearsight.models.parts.locat.locat import add_locat

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
