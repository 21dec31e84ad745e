"""Every family with LocAt or GPSA as a model of 2 blocks; as a script: what compiling does to them.

The script is a process of its own, as torch's compiler cannot look through the checks of shapes
that conftest.py installs. It prints the largest change of a logit by family, as JSON.
"""

from __future__ import annotations

import json
import sys
import warnings

import torch
from models import convit_families, locat_families
from torch import Tensor, nn

FAMILIES = locat_families.FAMILIES | convit_families.FAMILIES
MODELS = FAMILIES | locat_families.VARIANTS


def built(name: str) -> nn.Module:
    """The same model every time, in evaluation; weights are moved so that no part is idle."""
    torch.manual_seed(0)
    model = MODELS[name]()
    source = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=source) * 0.2)
    return model.eval()


def images_for(name: str, count: int) -> Tensor:
    size = locat_families.WIDE if name == "Swin" else locat_families.GRID
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
