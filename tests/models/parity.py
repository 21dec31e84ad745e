"""The authors' published models: names of weights, logits for weights filled by rule."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

FOLDER = Path(__file__).parents[3] / "shared" / "parity"


def published(file: str) -> dict[str, Any]:
    """names.json or logits.json; the test is skipped where they are not."""
    if not FOLDER.is_dir():
        pytest.skip("no folder shared/parity beside the repository")
    return json.loads((FOLDER / file).read_text())


def filled(model: nn.Module) -> nn.Module:
    """The model with every weight drawn by its name; in evaluation mode."""
    weights = model.state_dict()
    for name, weight in weights.items():
        if weight.is_floating_point():
            source = np.random.RandomState(zlib.crc32(name.encode()))
            drawn = np.asarray(source.standard_normal(tuple(weight.shape)), "float32")
            scale = 0.6 if "gaug" in name else 0.05 if weight.ndim >= 2 else 0.1
            base = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            weight.copy_(torch.from_numpy(np.asarray(base + scale * drawn, "float32")))
    model.load_state_dict(weights)
    return model.eval()


def images_of(height: int = 224, width: int = 224) -> Tensor:
    drawn = np.random.RandomState(7).standard_normal((2, 3, height, width))
    return torch.from_numpy(drawn.astype("float32"))
