"""Shapes in signatures are checked while tests run; torchvision is made importable first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

TYPED = ["nearsight.models", "nearsight.data", "nearsight.train", "nearsight.measure"]
install_import_hook(TYPED, "beartype.beartype")

from nearsight.models.torchvision_ops import declare_missing_ops  # noqa: E402

declare_missing_ops()


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets; skipped where there is none."""
    root = os.environ.get("NEARSIGHT_DATA")
    if not root or not Path(root).is_dir():
        pytest.skip("NEARSIGHT_DATA names no folder of real data sets")
    return Path(root)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)
