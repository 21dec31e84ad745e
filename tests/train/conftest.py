"""A small image folder that a run of `mu` goes through in about a second."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nearsight.protocol.presets import preset
from nearsight.protocol.schema import DataSettings, ModelSettings, Protocol


@pytest.fixture(scope="session")
def image_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3 classes of 16 x 16 pixels: 41 training and 11 test images each, told apart by colour."""
    root = tmp_path_factory.mktemp("images")
    draw = np.random.RandomState(7)
    for split, count in (("train", 41), ("test", 11)):
        for label in range(3):
            folder = root / split / f"class{label}"
            folder.mkdir(parents=True)
            for index in range(count):
                pixels = draw.randint(0, 256, (16, 16, 3))
                pixels[..., label] = np.minimum(255, pixels[..., label] + 60)
                Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{index}.png")
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
