"""Every kind of ConViT as a model of one layer with GPSA and one without."""

from __future__ import annotations

from collections.abc import Callable

from models.locat_families import GRID, VIT
from torch import nn

from nearsight.models.load.registry import create_model
from nearsight.models.parts.gpsa.convit import add_gpsa

FIRST = {"layers": 1}
OTHER = VIT | {"image_size": (32, 48)}  # 4x6 patches: GPSA must follow the images to 3x5
FAMILIES: dict[str, Callable[[], nn.Module]] = {
    "compact ConViT": lambda: create_model("mu_convit", 11, image_size=GRID, patch_size=8),
    "ConViT": lambda: create_model("convit_tiny", gpsa=FIRST, **VIT),
    "PSA": lambda: create_model("convit_tiny", gpsa=FIRST | {"mixing": "summed"}, **VIT),
    "distilled ConViT": lambda: create_model("convit_tiny", gpsa=FIRST, distilled=True, **VIT),
    "stock ViT with GPSA": lambda: add_gpsa(
        create_model("vit_tiny_patch16_224", num_registers=4, dynamic_img_size=True, **OTHER),
        layers=1,
    ),
}
