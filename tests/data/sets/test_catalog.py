"""The table of data sets: a new set needs its own module and a line there, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nearsight.data.sets import catalog
from nearsight.data.sets.cache import Decoding
from nearsight.data.sets.catalog import check_dataset, dataset_name, list_datasets, load_dataset
from nearsight.data.sets.dataset import ImageSet
from nearsight.data.sets.sources import Archive, NamedSet, write_origin
from nearsight.protocol import DataSettings, preset

SOURCE = Archive(
    "http://127.0.0.1/grey.tar.gz",
    sha256="0" * 64,
    num_bytes=7,
    folder="grey-files",
    marker="levels",
)


def grey(folder: Path, skip_corrupt: bool) -> Decoding:
    """Grey images of 5x5 pixels; every line of the file is the level of one class."""
    levels = [int(line) for line in (folder / "levels").read_text().split()]

    def images() -> list[ImageSet]:
        pixels = np.array(levels, np.uint8)[:, None, None, None]
        return [ImageSet(np.tile(pixels, (1, 3, 5, 5)), np.arange(len(levels)))]

    classes = tuple(map(str, levels))
    return Decoding("grey", str(folder), "1", classes, {"train": images, "test": images})


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(catalog.SETS, "grey", NamedSet(5, grey, SOURCE))
    (tmp_path / SOURCE.folder).mkdir()
    (tmp_path / SOURCE.folder / SOURCE.marker).write_text("3\n50\n200\n")
    return tmp_path


def test_a_set_in_the_table_is_named_listed_loaded_and_checked(root: Path):
    assert dataset_name("grey") == "grey"
    assert [row.state for row in list_datasets(root) if row.name == "grey"] == ["ready"]
    loaded = load_dataset(DataSettings(name="grey"), root)
    assert loaded.train.images[:, 0, 4, 4].tolist() == [3, 50, 200]
    assert loaded.classes == ("3", "50", "200")
    assert check_dataset("grey", root).verdict == "not the official bytes"
    write_origin(root / SOURCE.folder, SOURCE)
    assert check_dataset("grey", root).verdict == "official"


@pytest.mark.parametrize("name", ["baseline", "modern", "deit", "convit"])
def test_every_preset_has_values_for_a_set_that_no_paper_used(root: Path, name: str):
    ours = preset(name, "grey")
    shapes = preset(name, "shapes")
    assert ours.data.name == "grey"
    assert ours.crop_padding == shapes.crop_padding
    assert (ours.resized_crop is None) == (shapes.resized_crop is None)


def test_a_set_that_is_not_there_says_how_to_fetch_it(
    root: Path, nearsight: Callable[..., tuple[int, str, str]]
):
    code, _, err = nearsight("data", "check", "grey", "--data-root", str(root / "empty"))
    assert code == 1
    assert "run `nearsight data fetch grey`" in err
