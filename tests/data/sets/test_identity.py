"""Registered data sets, by the command line, on small folders in the layout of the official ones.

The numbers of images that make a published set are lowered for the folders here, its classes not.
"""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nearsight.data.sets import catalog, identity
from nearsight.protocol import protocol_from
from nearsight.runs import read_record
from nearsight.study.claims.all_claims import CLAIMS
from nearsight.study.design.settings import protocol_settings

Command = Callable[..., tuple[int, str, str]]
PUBLISHED = identity.published_sets()


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def _few_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two training images and one test image of a class make a published set."""
    few = {
        name: replace(each, train=(2, 2), test=(1, 1), totals=None)
        for name, each in PUBLISHED.items()
    }
    for module in (identity, catalog):
        monkeypatch.setattr(module, "published_sets", lambda: few)


def write_set(folder: Path, classes: tuple[str, ...], test: str = "val") -> Path:
    for number, name in enumerate(classes):
        pixels = np.full((8, 8, 3), number % 251, np.uint8)
        pixels[number % 7] = 255 - number % 251
        packed = io.BytesIO()
        Image.fromarray(pixels).save(packed, "PNG")
        for split, files in (("train", ("a", "b")), (test, ("c",))):
            (folder / split / name).mkdir(parents=True)
            for file in files:
                (folder / split / name / f"{name}_{file}.png").write_bytes(packed.getvalue())
    return folder


def claims_about(name: str) -> list:
    return [claim for claim in CLAIMS if claim.scale and name in claim.scale.epochs]


def test_the_claims_name_the_three_published_sets() -> None:
    named = {name for claim in CLAIMS if claim.scale for name in claim.scale.epochs}
    assert named - set(catalog.SETS) == set(PUBLISHED)
    assert [len(PUBLISHED[name].classes) for name in PUBLISHED] == [1000, 100, 100]
    assert PUBLISHED["imagenet-100"].classes[0::99] == ("n01440764", "n01855672")  # tench, goose


@pytest.mark.training
@pytest.mark.usefixtures("_few_images")
@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_a_registered_set_is_trained_on_by_its_name_and_claims_about_it_are_at_their_data(
    name: str, nearsight: Command, tmp_path: Path
) -> None:
    folder = write_set(tmp_path / "somewhere", PUBLISHED[name].classes)
    code, out, _ = nearsight("data", "register", name, str(folder))
    number = len(PUBLISHED[name].classes)
    assert (code, f"{2 * number} training and {number} test images of {number}" in out) == (0, True)
    assert "(of contents)" in out
    words = "--model mu --set epochs=1 --set data.validation_fraction=0.5 --set batch_size=250"
    words += " --set repeats=1 --set warmup_epochs=0 --device cpu --out run"
    code, _, err = nearsight("train", "deit", "--data", name, *words.split())
    assert code == 0, err
    record = read_record(tmp_path / "run")
    assert (record.data.name, record.data.origin) == (name, "registered")
    assert record.data.identity in out
    settings = protocol_settings(protocol_from(record.protocol), (14, 14))
    about = claims_about(name)
    assert about
    for claim in about:
        far = [words for words in claim.scale._of_one(settings) if words.startswith("data")]
        assert far == []


@pytest.mark.training
@pytest.mark.usefixtures("_few_images")
@pytest.mark.parametrize("registered", [True, False])
def test_a_published_set_that_is_given_by_its_path_is_recorded_by_its_name(
    registered: bool, nearsight: Command, tmp_path: Path
) -> None:
    folder = write_set(tmp_path / "flowers", PUBLISHED["mini-imagenet"].classes, "test")
    if registered:
        assert nearsight("data", "register", "mini-imagenet", str(folder))[0] == 0
    words = "--model mu --set epochs=1 --set data.validation_fraction=0.5 --device cpu --out run"
    code, _, err = nearsight("train", "baseline", "--data", str(folder), *words.split())
    assert code == 0, err
    record = read_record(tmp_path / "run")
    assert record.data.name == "mini-imagenet"
    assert record.protocol["data"]["name"] == f"folder:{folder}"
    assert record.data.identity.endswith("(of contents)")


def test_a_set_of_any_other_name_is_registered_and_listed(
    nearsight: Command, tmp_path: Path
) -> None:
    folder = write_set(tmp_path / "my flowers", ("rose", "tulip", "lily"))
    assert nearsight("data", "register", "flowers", str(folder))[0] == 0
    assert f"flowers        registered{folder}" in nearsight("data", "list")[1]
    code, out, _ = nearsight("data", "check", "flowers")
    checked = "flowers (registered folder): 6 training and 3 test images of 3 classes, hash "
    assert (code, out[: len(checked)]) == (0, checked)
    assert nearsight("data", "check", str(folder))[1].startswith("flowers (registered folder)")
    written = json.loads((tmp_path / "data" / "registered" / "flowers.json").read_text())
    assert (written["num_classes"], written["folder"]) == (3, str(folder))


@pytest.mark.usefixtures("_few_images")
def test_a_set_with_another_number_of_classes_is_refused(
    nearsight: Command, tmp_path: Path
) -> None:
    folder = write_set(tmp_path / "set", PUBLISHED["imagenet-100"].classes[:-1])
    code, _, err = nearsight("data", "register", "imagenet-100", str(folder))
    assert code == 1
    assert "is not imagenet-100: it has 99 classes instead of 100; imagenet-100 has the " in err
    assert "first 100 wnids of ImageNet" in err
    assert not (tmp_path / "data" / "registered").exists()


@pytest.mark.usefixtures("_few_images")
def test_a_set_with_a_renamed_class_folder_is_refused(nearsight: Command, tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set", PUBLISHED["imagenet-100"].classes)
    for split in ("train", "val"):
        (folder / split / "n01440764").rename(folder / split / "tench")
    code, _, err = nearsight("data", "register", "imagenet-100", str(folder))
    assert (code, "'tench'" in err and "100 classes" in err) == (1, True)


def test_a_set_with_too_few_images_is_refused(nearsight: Command, tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set", PUBLISHED["imagenet-100"].classes)
    code, _, err = nearsight("data", "register", "imagenet-100", str(folder))
    assert code == 1
    assert "it has 2 training images of n01440764, but imagenet-100 has 732 to 1300" in err
    assert nearsight("data", "register", "tenth", str(folder))[0] == 0


def test_all_images_of_imagenet_are_counted() -> None:
    of = replace(PUBLISHED["imagenet"], classes=("a", "b"), train=(1, 9), test=(1, 9))
    images = identity.FolderImages(
        Path(), ("a", "b"), [(Path("x"), 0), (Path("y"), 1)], [(Path("z"), 0), (Path("w"), 1)], ()
    )
    assert of.problem(images) == (
        "it has 2 training and 2 test images, but imagenet has 1,281,167 and 50,000"
    )
    assert replace(of, totals=(2, 2)).problem(images) is None


@pytest.mark.usefixtures("_few_images")
def test_a_published_set_cannot_have_another_name(nearsight: Command, tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set", PUBLISHED["imagenet-100"].classes)
    code, _, err = nearsight("data", "register", "mine", str(folder))
    assert (code, f"{folder} " in err and "imagenet-100" in err) == (1, True)


@pytest.mark.parametrize("name", ["cifar100", "a/b", "folder:x", "Flowers", ""])
def test_a_name_that_is_taken_or_no_name_is_refused(
    name: str, nearsight: Command, tmp_path: Path
) -> None:
    folder = write_set(tmp_path / "set", ("rose", "tulip"))
    code, _, err = nearsight("data", "register", name, str(folder))
    assert (code, f"nearsight: {name!r} " in err) == (1, True)


@pytest.mark.parametrize("most", [identity.MOST_READ, 5])
@pytest.mark.parametrize("by_path", [False, True])
def test_a_file_that_changed_since_is_refused_in_a_sentence(
    by_path: bool, most: int, nearsight: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "MOST_READ", most)  # 5: as in a set of ImageNet's size
    folder = write_set(tmp_path / "set", ("rose", "tulip"))
    told = nearsight("data", "register", "flowers", str(folder))[1]
    assert ("(of contents)" if most > 5 else "(of names and sizes)") in told
    asked = str(folder) if by_path else "flowers"
    path = folder / "train" / "rose" / "rose_a.png"
    content = path.read_bytes()
    path.write_bytes(content + b"\0")
    code, _, err = nearsight("data", "check", asked)
    assert code == 1
    assert "flowers" in err
    assert str(folder) in err
    assert "a file was changed, added or removed" in err
    path.write_bytes(content)  # other times, the same bytes
    os.utime(path, (1, 1))
    assert nearsight("data", "check", asked)[0] == 0
    path.unlink()
    assert "was changed, added or removed" in nearsight("data", "check", asked)[2]


@pytest.mark.slow
def test_a_folder_that_was_moved_is_named_with_the_remedy(
    nearsight: Command, tmp_path: Path
) -> None:
    folder = write_set(tmp_path / "set", ("rose", "tulip"))
    nearsight("data", "register", "flowers", str(folder))
    shutil.move(folder, tmp_path / "elsewhere")
    code, _, err = nearsight("data", "check", "flowers")
    assert code == 1
    assert "flowers" in err
    assert str(folder) in err
    assert "flowers        missing" in nearsight("data", "list")[1]
    assert nearsight("data", "register", "flowers", str(tmp_path / "elsewhere"))[0] == 0
    assert nearsight("data", "check", "flowers")[0] == 0


def test_a_published_name_that_is_not_registered_says_how(nearsight: Command) -> None:
    code, _, err = nearsight("train", "deit", "--data", "imagenet", "--out", "run")
    assert code == 1
    assert "`nearsight data register imagenet DIR`" in err


def test_a_damaged_registration_is_named(nearsight: Command, tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set", ("rose", "tulip"))
    nearsight("data", "register", "flowers", str(folder))
    path = tmp_path / "data" / "registered" / "flowers.json"
    path.write_text("{}")
    code, _, err = nearsight("data", "check", "flowers")
    assert (code, f"{path} " in err and "`nearsight data register" in err) == (
        1, True,
    )  # fmt: skip
