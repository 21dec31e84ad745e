"""Small models with sharp attention, one per way of arranging tokens."""

import torch
from timm.models.pvt_v2 import PyramidVisionTransformerV2
from timm.models.swin_transformer import SwinTransformer
from torch import nn

from nearsight.models.load.registry import create_model


def sharpened(model, std=0.5):
    """Weights large enough for attention that is far from uniform."""
    torch.manual_seed(3)
    for name, module in model.named_modules():
        if name.rpartition(".")[2] in ("qkv", "q", "kv") and isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=std)
    return model.eval()


def plain():
    """3x5 patches after a class token and a register."""
    torch.manual_seed(5)
    return sharpened(create_model("mu", 7, image_size=(12, 20), patch_size=4, num_registers=1))


def windows():
    """5x7 patches in windows of 3x3, padded to 6x9, every second layer shifted."""
    torch.manual_seed(5)
    options = {"embed_dim": 12, "depths": (2,), "num_heads": (3,), "window_size": 3}
    return sharpened(SwinTransformer(img_size=(20, 28), patch_size=4, num_classes=3, **options))


def pooled():
    """6x10 patches that attend to 3x5 cells of 2x2 patches."""
    torch.manual_seed(5)
    options = {"depths": (1, 1), "embed_dims": (8, 8), "num_heads": (2, 2), "sr_ratios": (2, 1)}
    return sharpened(PyramidVisionTransformerV2(num_classes=3, mlp_ratios=(1, 1), **options))


def images(height, width, count=7):
    return torch.randn(count, 3, height, width, generator=torch.Generator().manual_seed(2))
