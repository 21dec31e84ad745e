"""Make torchvision importable next to a CPU build of torch.

PyPI's torchvision is built for CUDA. Next to a CPU build of torch its ``_C`` library does not load,
and ``import torchvision`` (so also ``import timm``) fails with "operator torchvision::nms does not
exist". To prevent this, the two operators that torchvision expects are declared. If the library
loads, nothing is done.
"""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path


@cache
def declare_missing_ops() -> None:
    """Declare the operators that torchvision expects, if its own library does not load.

    Call this before the first import of torchvision or timm. Further calls do nothing.
    """
    spec = importlib.util.find_spec("torchvision")
    if "torchvision" in sys.modules or spec is None or not spec.submodule_search_locations:
        return
    import torch

    for folder in spec.submodule_search_locations:
        for library in (*Path(folder).glob("_C*.so"), *Path(folder).glob("_C*.pyd")):
            try:
                torch.ops.load_library(str(library))
            except OSError:
                continue
            return
    fragment = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        fragment.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _declared.append(fragment)


_declared: list[object] = []  # keeps fragments alive, because their operators end with them
