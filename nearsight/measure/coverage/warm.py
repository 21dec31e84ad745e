"""Import what the attempts need, once, in the process from which they are all forked.

Importing this module must start no threads, because a forked process has none of them.
"""

from __future__ import annotations

import importlib.util

from nearsight.measure.coverage import attempt
from nearsight.models.compat import declare_missing_ops

declare_missing_ops()
for name in ("timm", "torchvision.models", "transformers.modeling_utils"):
    if importlib.util.find_spec(name.partition(".")[0]):
        importlib.import_module(name)

__all__ = ["attempt"]
