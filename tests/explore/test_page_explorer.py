"""The explorer in a real browser, from a file, compared with what Python captured."""

import re

import numpy as np
import pytest
import torch
from explore.made_pages import MODELS, captured, grid_of, head_numbers, localised, made_images
from matplotlib import colormaps

import nearsight as ns

DRAWN = "new Promise(done => requestAnimationFrame(() => setTimeout(done)))"
NUM_PREFIX = {"plain": 2, "wide": 1, "windows": 0}


def hover(page, name, row, col):
    """Point at a patch of the image, and wait until it is drawn."""
    box = page.locator("#picture").bounding_box()
    grid = grid_of(name)
    page.mouse.move(
        box["x"] + (col + 0.5) * box["width"] / grid.cols,
        box["y"] + (row + 0.5) * box["height"] / grid.rows,
    )
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def shown_row(page, model, layer, head):
    return np.array(page.evaluate(f"nearsight.row({model}, {layer}, {head})"))


@pytest.mark.parametrize("name", ["plain", "wide"])
@pytest.mark.parametrize(("row", "col"), [(0, 0), (2, 4), (1, 3)])
def test_hovering_shows_the_captured_row_of_every_head(open_page, pages, name, row, col):
    with open_page(pages(name)) as page:
        hover(page, name, row, col)
        query = NUM_PREFIX[name] + row * grid_of(name).cols + col
        for layer, weights in enumerate(captured(name)):
            for head in range(len(weights)):
                exact = weights[head, query].numpy()
                error = np.abs(shown_row(page, 0, layer, head) - exact)
                assert error.max() <= exact.max() / 255


def test_thumbnails_are_painted_in_viridis_by_weight(open_page, pages):
    """Every patch of every thumbnail, read back from the canvas."""
    with open_page(pages("wide")) as page:
        hover(page, "wide", 3, 2)
        query, layers = 1 + 3 * 7 + 2, captured("wide")
        pixels = page.evaluate(
            """() => {
              const canvas = document.querySelector('#thumbnails-0');
              const {width, height} = canvas, context = canvas.getContext('2d');
              const {data} = context.getImageData(0, 0, width, height);
              return {width, height, data: Array.from(data)};
            }"""
        )
        image = np.array(pixels["data"]).reshape(pixels["height"], pixels["width"], 4)
        side = (pixels["width"] - 22) // 2 - 3
        high = (pixels["height"] - 22) // 3 - 3
        for layer, weights in enumerate(layers):
            for head in range(2):
                row = weights[head, query, 1:].numpy()
                for patch in range(35):
                    y = 22 + layer * (high + 3) + int((patch // 7 + 0.5) * high / 5)
                    x = 22 + head * (side + 3) + int((patch % 7 + 0.5) * side / 7)
                    share = row[patch] / row.max()
                    near = [
                        np.array(colormaps["viridis"](min(255, max(0, int(share * 256) + step))))
                        * 255
                        for step in (-2, -1, 0, 1, 2)
                    ]
                    seen = image[y, x, :3]
                    assert min(np.abs(seen - each[:3]).max() for each in near) <= 2


def test_incoming_attention_is_the_column_by_switch_and_by_shift(open_page, pages):
    with open_page(pages("wide"), "#l=2&h=1") as page:
        hover(page, "wide", 2, 3)
        key = 1 + 2 * 7 + 3
        column = captured("wide")[1][0, 1:, key].numpy()
        best = int(column.argmax())
        page.keyboard.press("Space")
        page.keyboard.down("Shift")
        page.wait_for_selector("text=gets most attention from")
        text = page.locator(".pinned li").first.inner_text()
        assert text.startswith(f"row {best // 7 + 1}, column {best % 7 + 1}")
        assert text.split()[-2] == f"{100 * column[best]:.1f}"
        page.keyboard.up("Shift")
        page.wait_for_selector("text=attends most to")
        page.get_by_label("gets attention from").check()
        page.wait_for_selector("text=gets most attention from")
        assert page.locator(".pinned li").first.inner_text() == text


def test_a_pinned_patch_names_its_five_most_attended_patches(open_page, pages):
    with open_page(pages("wide"), "#l=3&h=2") as page:
        hover(page, "wide", 4, 6)
        page.locator("#picture").click(position={"x": 3, "y": 3})
        hover(page, "wide", 4, 6)  # a pinned patch stays
        row = captured("wide")[2][1, 1, 1:].numpy()
        best = np.argsort(-row, kind="stable")[:5]
        listed = page.locator(".pinned li").all_inner_texts()
        assert [text.rsplit(" ", 2)[0].strip() for text in listed] == [
            f"row {patch // 7 + 1}, column {patch % 7 + 1}" for patch in best
        ]
        page.locator("#picture").click(position={"x": 3, "y": 3})
        page.wait_for_selector(".pinned", state="detached")


def test_prefix_tokens_can_be_chosen(open_page, pages):
    with open_page(pages("plain")) as page:
        layers = captured("plain")
        for query, name in enumerate(["[CLS]", "register 1"]):
            page.get_by_role("button", name=name).click()
            for layer, weights in enumerate(layers):
                exact = weights[1, query].numpy()
                error = np.abs(shown_row(page, 0, layer, 1) - exact)
                assert error.max() <= exact.max() / 255


def test_two_models_follow_one_hand_over_their_own_grids(open_page, pages):
    with open_page(pages("plain", "wide")) as page:
        hover(page, "plain", 2, 1)
        for model, (name, query) in enumerate([("plain", 2 + 2 * 5 + 1), ("wide", 1 + 4 * 7 + 2)]):
            for layer, weights in enumerate(captured(name)):
                exact = weights[0, query].numpy()
                error = np.abs(shown_row(page, model, layer, 0) - exact)
                assert error.max() <= exact.max() / 255
        assert page.locator("section.model").count() == 2


@pytest.mark.parametrize("name", ["plain", "wide"])
def test_the_slider_agrees_with_python_on_rows_that_were_never_rounded(open_page, pages, name):
    grid, prefix = grid_of(name), NUM_PREFIX[name]
    with open_page(pages(name), "#l=2&h=2") as page:
        for step in (0, 20, 45, 70, 99, 100):
            page.locator("#gaussian").fill(str(step))
            width = page.evaluate("nearsight.state.width.value")
            assert (width is None) == (step == 100)
            assert width is None or width >= 0.5
            for layer, weights in enumerate(captured(name)):
                exact = head_numbers(weights, grid, prefix, width)
                for head in range(len(weights)):
                    seen = page.evaluate(f"nearsight.metrics(0, {layer}, {head})")
                    for metric in ("mad", "entropy", "self_mass"):
                        assert seen[metric] == pytest.approx(exact[metric][head], abs=0.002)
            page.evaluate(DRAWN)
            exact = head_numbers(captured(name)[1], grid, prefix, width)
            for metric in ("mad", "entropy"):
                cell = page.locator(f"#details-0 [data-metric={metric}]")
                assert float(cell.get_attribute("data-value")) == pytest.approx(
                    exact[metric][1], abs=0.002
                )


def test_the_gaussian_leaves_more_to_prefix_tokens_and_their_own_rows_alone(open_page, pages):
    with open_page(pages("plain"), "#w=0.5") as page:
        for layer, weights in enumerate(captured("plain")):
            changed = localised(weights, grid_of("plain"), 2, 0.5)
            for query, address in ((9, "p=7"), (0, "p=t0")):
                page.evaluate(f"nearsight.state.readAddress('#w=0.5&{address}')")
                seen = shown_row(page, 0, layer, 1)
                assert seen == pytest.approx(changed[1, query].numpy(), abs=0.005)
                assert seen.sum() == pytest.approx(1, abs=0.01)
        assert changed[1, 9, :2].sum() > weights[1, 9, :2].sum()


def test_the_slider_shows_what_localise_does_to_a_model(open_page, pages):
    model, images = MODELS["wide"](), made_images("wide").inputs
    with torch.no_grad(), ns.capture_attention(ns.localise(model, 1.5, "1")) as maps:
        model(images)
    with open_page(pages("wide"), "#w=1.5&p=17") as page:
        for head in range(2):
            exact = maps[0][0, head, 18].numpy()
            assert shown_row(page, 0, 0, head) == pytest.approx(exact, abs=float(exact.max()) / 100)


def test_rollout_is_the_product_of_layers(open_page, pages):
    with open_page(pages("wide"), "#m=rollout&p=17&l=3") as page:
        product = np.eye(36)
        for weights in captured("wide"):
            product = (weights.mean(0).double().numpy() / 2 + np.eye(36) / 2) @ product
        page.keyboard.press("Space")
        page.evaluate(DRAWN)
        seen = np.array(page.evaluate("nearsight.shown(0, 2, 0)"))
        assert seen == pytest.approx(product[18, 1:], abs=2e-3)


def test_similarity_is_the_cosine_of_features(open_page, pages):
    model, outputs = MODELS["wide"](), []
    model.blocks[1].register_forward_hook(lambda *call: outputs.append(call[2].detach()))
    model(made_images("wide").inputs[:1])
    unit = outputs[0][0].double()
    unit = unit / unit.norm(dim=-1, keepdim=True)
    with open_page(pages("wide"), "#m=similarity&p=17&l=2") as page:
        seen = np.array(page.evaluate("nearsight.shown(0, 1, 0)"))
        assert seen == pytest.approx((unit @ unit[18])[1:].numpy(), abs=1 / 63 + 1e-6)


def test_names_of_heads_are_those_of_python(open_page, pages):
    """On one image, where the share of position cannot be known."""
    from nearsight.measure.metrics.head_kinds import NEEDED, head_names
    from nearsight.measure.profile import measure_model

    for name in ("plain", "wide"):
        profile = measure_model(
            MODELS[name](), made_images(name).inputs[:1], metrics=("mad", *NEEDED)
        )
        none = [np.zeros(len(layer[0])) for layer in profile.metrics["mad"].values]
        expected = head_names(profile.metrics, none)
        with open_page(pages(name)) as page:
            for layer, names in enumerate(expected):
                for head, kind in enumerate(names):
                    page.evaluate(f"nearsight.state.readAddress('#l={layer + 1}&h={head + 1}')")
                    page.evaluate(
                        "new Promise(done => requestAnimationFrame(() => setTimeout(done)))"
                    )
                    assert page.locator("#details-0 .name").get_attribute("data-name") == kind


def test_windows_of_swin_are_shown_on_the_whole_image(open_page, pages):
    with open_page(pages("windows")) as page:
        hover(page, "windows", 4, 5)
        for layer, weights in enumerate(captured("windows")):
            exact = weights[2, 33].numpy()
            seen = shown_row(page, 0, layer, 2)
            assert np.abs(seen - exact).max() <= exact.max() / 255
            assert (seen[exact == 0] == 0).all()


def test_an_address_shows_a_colleague_the_same_view(open_page, pages):
    with open_page(pages("plain", "wide")) as page:
        hover(page, "plain", 1, 4)
        page.keyboard.press("Space")
        for key in ("ArrowDown", "ArrowRight", "2"):
            page.keyboard.press(key)
        page.locator("#gaussian").fill("30")
        page.wait_for_url(re.compile("w="))
        address = page.evaluate("location.hash")
        rows = [shown_row(page, model, 1, 1) for model in range(2)]
    assert "l=2&h=2&p=9" in address
    with open_page(pages("plain", "wide"), address) as page:
        for model, row in enumerate(rows):
            assert shown_row(page, model, 1, 1) == pytest.approx(row)
        assert page.locator("#status").inner_text().endswith("(pinned)")
        assert page.get_by_role("button", name="Image 2").get_attribute("aria-pressed") == "true"


def test_an_address_that_says_one_model_shows_one(open_page, pages):
    with open_page(pages("plain", "wide")) as page:
        page.get_by_label("beside").select_option("")
        page.get_by_label("same colour scale for all heads").check()
        page.wait_for_url(re.compile("b=&.*s=1"))
        address = page.evaluate("location.hash")
    with open_page(pages("plain", "wide"), address) as page:
        assert page.locator("section.model").count() == 1
        assert page.get_by_label("same colour scale for all heads").is_checked()
        page.evaluate("location.hash = '#l=2'")  # what a link does not say is as at the start
        page.wait_for_selector("section.model >> nth=1")
        assert not page.get_by_label("same colour scale for all heads").is_checked()


NONSENSE = [
    "#i=0", "#i=99&l=0&h=99&p=9999", "#p=t7", "#p=-1&l=x&h=1.5", "#w=NaN", "#w=1e999", "#w=0.01",
    "#m=zzz&v=zzz&e=7", "#a=nobody&b=nobody", "#%E0%A4%A", "#v=runs", "#v=heads&box=1,2&name=x",
    "#order=x&mad=-1&list=__proto__", "#constructor=1&q=(&runs=%0A%0A&study=9&group=x&sort=x",
]  # fmt: skip


def test_addresses_that_mean_nothing_show_the_page_all_the_same(open_page, pages):
    with open_page(pages("plain", "wide")) as page:
        for address in NONSENSE:
            page.evaluate(f"location.hash = {address!r}")
            page.reload()
            page.wait_for_selector("html[data-ready]")
            page.evaluate(DRAWN)
            assert page.evaluate("nearsight.state.view.value") in ("explorer", "heads")
            page.get_by_role("button", name="Explorer").click()
            page.wait_for_selector("#details-0 h3")
            assert page.evaluate("nearsight.state.width.value") is None


def test_everything_is_reached_by_keyboard_alone(open_page, pages):
    with open_page(pages("plain")) as page:
        for _ in range(30):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.id") == "picture":
                break
        assert page.evaluate("document.activeElement.id") == "picture"
        start = page.evaluate("nearsight.state.token.value.patch")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowUp")
        assert page.evaluate("nearsight.state.token.value.patch") == start + 1 - 5
        page.keyboard.press("Space")
        page.wait_for_selector(".pinned")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")  # the first image
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        page.wait_for_selector("text=Layer 2, head 2")
        page.keyboard.press("c")
        page.wait_for_selector("text=Where the [CLS] attends")
        page.keyboard.press("2")
        assert page.evaluate("nearsight.state.image.value") == 1
        reached = set()
        for _ in range(40):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.id || document.activeElement.name"))
        assert {"gaussian", "direction"} <= reached


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1280])
def test_the_page_fits_its_window(open_page, pages, width, scheme):
    with open_page(pages("plain", "wide"), width=width, scheme=scheme) as page:
        for view in ("explorer", "heads"):
            page.evaluate(f"nearsight.state.view.value = '{view}'")
            page.evaluate(DRAWN)
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_tap_on_a_phone_chooses_a_patch(browser, pages):
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True, offline=True
    )
    page = context.new_page()
    page.goto(pages("wide").as_uri())
    page.wait_for_selector("html[data-ready]")
    box = page.locator("#picture").bounding_box()
    page.touchscreen.tap(box["x"] + 2, box["y"] + 2)
    page.wait_for_selector("text=Where the patch in row 1, column 1 attends (pinned)")
    context.close()
