"""The page as one file, and the same inside notebooks."""

import json
import re

import nbformat
import numpy as np
import pytest
import torch
from explore.made_pages import captured, made_exploration, made_images
from measure import toy_models
from nbconvert import HTMLExporter
from PIL import Image

import nearsight as ns
from nearsight.core import UserError
from nearsight.explore.document import script_json, source_hash
from nearsight.explore.exploration import Exploration


@pytest.fixture(scope="module")
def page():
    return made_exploration("plain").html()


@pytest.mark.slow
def test_the_policy_allows_the_script_and_style_of_the_page_and_nothing_else(page):
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    policy = policy.replace("&#x27;", "'")
    script = re.findall(r"<script>(.*?)</script>", page, re.S)
    style = re.findall(r"<style>(.*?)</style>", page, re.S)
    assert len(script) == len(style) == 1
    assert f"script-src '{source_hash(script[0])}';" in policy
    assert f"style-src '{source_hash(style[0])}';" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert not re.search(r"https?://(?!www\.w3\.org)", page)


def test_json_in_the_page_survives_any_name():
    nasty = {"a": "</script><script>alert(1)</script>", "b": "<!-- \u2028 ' \" & ]]>"}
    text = script_json(nasty)
    assert "<" not in text
    assert json.loads(text) == nasty


def test_numbers_that_json_has_not_are_refused():
    with pytest.raises(ValueError, match="Out of range"):
        script_json([float("nan")])


def test_a_file_that_cannot_be_written_is_said_in_words(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"/page\.html.*File exists"):
        Exploration("x").write(tmp_path / "file" / "page.html")


@pytest.mark.slow
def test_a_notebook_shows_a_frame_that_is_cut_off(page):
    shown = made_exploration("plain")._repr_html_()
    tag = shown[: shown.index("srcdoc")]
    assert 'sandbox="allow-scripts"' in tag
    assert "allow-same-origin" not in shown[: shown.index("srcdoc")]
    inside = re.search(r'srcdoc="([^"]*)"', shown)[1]
    for sign, name in (("&quot;", '"'), ("&#x27;", "'"), ("&lt;", "<"), ("&gt;", ">")):
        inside = inside.replace(sign, name)
    assert inside.replace("&amp;", "&") == page


def test_a_notebook_survives_nbconvert_and_opens(browser, tmp_path):
    output = nbformat.v4.new_output(
        "display_data", {"text/html": made_exploration("plain")._repr_html_()}
    )
    cell = nbformat.v4.new_code_cell("ns.explore(model, images)", outputs=[output])
    language = {"language_info": {"name": "python", "pygments_lexer": "python"}}
    book = nbformat.v4.new_notebook(cells=[cell], metadata=language)
    html, _ = HTMLExporter().from_notebook_node(book)
    (tmp_path / "book.html").write_text(html)
    context = browser.new_context(offline=True, viewport={"width": 1300, "height": 1000})
    opened = context.new_page()
    opened.goto((tmp_path / "book.html").as_uri(), wait_until="commit")
    frame = opened.frame_locator("iframe[title^='Attention explorer']")
    frame.locator("text=Layer 1, head 1").wait_for()
    inner = next(each for each in opened.frames if each.url == "about:srcdoc")
    assert inner.evaluate("origin") == "null"
    inner.evaluate("nearsight.state.readAddress('#l=2&h=2&p=7')")
    row = np.array(inner.evaluate("nearsight.row(0, 1, 1)"))
    exact = captured("plain")[1][1, 2 + 7].numpy()
    assert np.abs(row - exact).max() <= exact.max() / 255
    context.close()


@pytest.mark.slow
def test_explore_takes_a_tensor_and_shows_its_pictures():
    images = toy_models.images(12, 20, count=3)
    found = ns.explore(toy_models.plain(), images, num_shown=2, names=["a", "b", "c"])
    (subject,) = found.subjects
    assert [image["name"] for image in subject.examples["images"]] == ["a", "b"]
    assert subject.numbers["num_images"] == 3
    assert subject.name == "VisionTransformer"


@pytest.mark.slow
def test_explore_can_be_called_again_once_its_room_is_loaded():
    import nearsight.explore as room

    images = toy_models.images(12, 20, count=1)
    for call in (ns.explore, room, room.explore):
        assert len(call(toy_models.plain(), images).subjects) == 1


@pytest.mark.slow
def test_explore_shows_several_models_by_name_and_in_a_list():
    images = toy_models.images(12, 20, count=2)
    named = ns.explore({"x": toy_models.plain(), "y": toy_models.plain()}, images)
    assert [subject.name for subject in named.subjects] == ["x", "y"]
    listed = ns.explore([toy_models.plain(), toy_models.plain()], images)
    assert [x.name for x in listed.subjects] == ["VisionTransformer 1", "VisionTransformer 2"]


@pytest.mark.slow
def test_explore_takes_folders_files_and_pictures(tmp_path):
    pixels = made_images("plain").pixels
    for number, each in enumerate(pixels):
        Image.fromarray(each).save(tmp_path / f"{number}.png")
    model = toy_models.plain()
    files = [tmp_path / "0.png", tmp_path / "1.png", tmp_path / "2.png"]
    pictures = [Image.open(file) for file in files]
    by_folder, by_file, by_picture = (
        ns.explore(model, x).subjects[0].examples["images"] for x in (tmp_path, files, pictures)
    )
    assert [x["name"] for x in by_folder] == ["0.png", "1.png", "2.png"]
    assert [x["bytes"] for x in by_folder] == [x["bytes"] for x in by_file]
    assert [x["bytes"] for x in by_picture] == [x["bytes"] for x in by_file]
    assert [x["name"] for x in by_picture] == ["image 1", "image 2", "image 3"]


@pytest.mark.parametrize(
    ("images", "words"),
    [
        (torch.zeros(2, 1, 12, 20), r"\[n, 3, h, w\].*torch\.float32 \[2, 1, 12, 20\]"),
        (
            torch.zeros(2, 3, 12, 20, dtype=torch.uint8),
            r"\[n, 3, h, w\].*\.uint8 \[2, 3, 12, ",
        ),
        ([], r"\bimage"),
    ],
)
def test_images_that_no_model_takes_are_refused(images, words):
    with pytest.raises(UserError, match=words):
        ns.explore(toy_models.plain(), images)


def test_no_model_is_refused():
    with pytest.raises(UserError, match=r"\bmodel"):
        ns.explore([], torch.zeros(1, 3, 12, 20))
