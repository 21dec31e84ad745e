"""A small image folder that a run of `mu` goes through in about a second."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from made_data import write_coloured_folder

from nearsight.protocol.presets import preset
from nearsight.protocol.schema import DataSettings, ModelSettings, Protocol


@pytest.fixture(scope="session")
def image_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("images")
    write_coloured_folder(root)
    return root


@pytest.fixture
def small(image_folder: Path) -> Protocol:
    """Baseline+CutMix, 3 epochs of 4 uneven batches (99 samples in batches of 29)."""
    return replace(
        preset("baseline+cutmix", f"folder:{image_folder}"),
        data=DataSettings(name=f"folder:{image_folder}", image_size=16),
        model=ModelSettings(name="mu_vit"),
        epochs=3,
        warmup_epochs=1,
        batch_size=29,
    )
