"""nearsight maps: the files it writes, and one sentence for every mistake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from made_data import write_image
from PIL import Image

Answer = tuple[int, str, str]


@pytest.fixture
def picture(tmp_path: Path) -> str:
    write_image(tmp_path / "a.png", (67, 41))
    return "a.png"


@pytest.mark.slow
def test_two_models_stand_in_one_figure_and_its_words_are_text(
    nearsight: Callable[..., Answer], picture: str
):
    models = ["mu", "nano", "--random-init", "--image-size", "16x32"]
    words = ["--image", picture, "--patch", "2,9", "--patch", "8,16", "--layer", "1", "--head", "2"]
    assert nearsight("maps", *models, *words, "--out", "new/maps.svg")[:2] == (0, "new/maps.svg\n")
    svg = Path("new/maps.svg").read_text()
    for text in (
        "a.png", "[CLS]", "patch 2", "row 8, column 16", "layer 1 of 2, head 2 of 2, 8x16 patches",
        "relative to uniform attention",
    ):  # fmt: skip
        assert text in svg


@pytest.mark.slow
def test_a_model_stands_above_itself_with_local_attention(
    nearsight: Callable[..., Answer], picture: str
):
    words = ["mu", "--random-init", "--image", picture, "--localise", "gaussian:1@last1"]
    assert nearsight("maps", *words, "--out", "a.svg")[:2] == (0, "a.svg\n")
    svg = Path("a.svg").read_text()
    assert svg.index(">mu (untrained)<") < svg.index(">mu (untrained) gaussian:1@last1<")


@pytest.mark.slow
def test_every_head_has_a_column_and_gates_have_numbers(
    nearsight: Callable[..., Answer], picture: str
):
    words = ["mu", "mu_convit", "--random-init", "--image", picture, "--layer", "1"]
    assert nearsight("maps", *words, "--head", "all", "--out", "a.svg")[:2] == (0, "a.svg\n")
    svg = Path("a.svg").read_text()
    for text in ("head 1", "head 2", "from row 5, column 5", "gate 0.73", "gate (1: position)"):
        assert text in svg
    assert "patch 1" not in svg
    assert nearsight("maps", "mu", *words[2:], "--head", "all", "--out", "b.svg")[0] == 0
    assert "gate" not in Path("b.svg").read_text()


@pytest.mark.slow
def test_a_folder_is_drawn_as_its_mean(nearsight: Callable[..., Answer], tmp_path: Path):
    for number in range(3):
        write_image(tmp_path / "many" / f"{number}.png", (41, 41))
    words = ["mu", "--random-init", "--images", "many", "--patch", "3,5"]
    assert nearsight("maps", *words, "--out", "a.svg")[:2] == (0, "a.svg\n")
    svg = Path("a.svg").read_text()
    assert "many · mean attention over 3 images" in svg
    assert "mu (untrained)" in svg


@pytest.mark.slow
def test_a_png_is_what_it_says(nearsight: Callable[..., Answer], picture: str):
    assert nearsight("maps", "mu", "--random-init", "--image", picture)[:2] == (0, "maps.png\n")
    with Image.open("maps.png") as written:
        assert written.format == "PNG"
        assert written.width > written.height  # image, [CLS] and three patches in one row


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["mu", "--image", "none.png"], "none.png, but there is no such file"),
        (["mu", "--image", "."], "a folder; use --images"),
        (["mu", "--image", "text.png"], "cannot read the image text.png (not an image"),
        (["mu"], "no weights are given for mu"),
        (["mu", "--random-init", "--patch", "9,1"], "no patch in row 9"),
        (["mu", "--random-init", "--patch", "0,1"], "must be ROW,COL, both counted from 1"),
        (["mu", "--random-init", "--patch", "3"], "must be ROW,COL, both counted from 1"),
        (["mu", "--random-init", "--layer", "3"], "no layer 3"),
        (["mu", "--random-init", "--head", "3"], "no head 3"),
        (["mu", "--random-init", "--head", "some"], "must be mean, all, or a number"),
        (
            ["mu", "--images", "."],
            "either --image FILE or --images FOLDER; both are given",
        ),
        (["mu", "--num-images", "3"], "--num-images needs a folder"),
        (["mu", "--random-init", "--out", "a.gif"], "--out is a.gif, but"),
        (["mu", "--random-init", "--out", "a.png/b.svg"], "cannot write the maps to a.png/b.svg"),
        (["wrong_name", "--random-init"], "wrong_name is neither a run folder"),
        (["mu", "--weights", "x", "--weights", "y"], "--weights is given 2 times"),
        (["resnet18", "--random-init"], "ResNet has no softmax attention between patches"),
    ],
)
def test_a_mistake_is_one_sentence(
    words: list[str], sentence: str, nearsight: Callable[..., Answer], picture: str
):
    Path("text.png").write_text("no picture")
    image = [] if "--image" in words else ["--image", picture]
    code, out, err = nearsight("maps", *words, *image)
    assert (code, out) == (1, "")
    assert sentence in err
    assert err.count("\n") == 1
