"""Make the pictures of the explorer that README and docs show.

    python docs/screenshots.py --weights vit_tiny_patch16_224.safetensors

Needs playwright, a Chromium (``CHROMIUM`` names it) and scikit-learn, whose two sample photographs
(CC BY) the model is shown. Runs and studies come from ``results/``. Pictures go to docs/figures.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import tempfile
from pathlib import Path

import sklearn.datasets
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from nearsight.explore.exploration import Exploration
from nearsight.explore.targets import explore_targets

MODEL = "vit_tiny_patch16_224"
DOCS = Path(__file__).parent
STUDY = DOCS.parent / "results" / "protocol-small"
MOST_BYTES = 150_000
PICTURES = {  # name: page, address, size of the window, dark or light
    "explore": ("model", "#i=2&l=5&h=1&p=76&pin=1", (1180, 880), "light"),
    "explore-what-if": ("model", "#i=2&l=10&h=1&p=76&pin=1&w=2", (1180, 880), "dark"),
    "explore-heads": ("model", "#v=heads&box=0,0.16,0,0.62", (1000, 900), "light"),
    "explore-runs": ("study", "#group=protocol&sort=min_mad", (1100, 900), "light"),
}


def explorations(weights: Path, images: Path) -> dict[str, Exploration]:
    """The pages that pictures are taken of, by name."""
    return {
        "model": explore_targets([MODEL], images, weights=[weights]),
        "study": explore_targets([str(STUDY)]),
    }


def taken(browser: Browser, page: Path, size: tuple[int, int], scheme: str, address: str) -> bytes:
    """Open a page at an address, and return what is seen as WebP."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, device_scale_factor=1.5
    )
    opened = context.new_page()
    opened.goto(page.resolve().as_uri() + address)
    opened.wait_for_selector("html[data-ready]")
    opened.wait_for_timeout(1000)
    seen = Image.open(io.BytesIO(opened.screenshot()))
    context.close()
    buffer = io.BytesIO()
    seen.convert("RGB").save(buffer, "webp", quality=82, method=6)
    return buffer.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", type=Path, required=True)
    given = parser.parse_args()
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as running:
        images = Path(folder) / "photographs"
        images.mkdir()
        for file in sorted((Path(sklearn.datasets.__file__).parent / "images").glob("*.jpg")):
            shutil.copy(file, images)
        pages = {
            name: each.write(Path(folder) / f"{name}.html")
            for name, each in explorations(given.weights, images).items()
        }
        browser = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, (page, address, size, scheme) in PICTURES.items():
            content = taken(browser, pages[page], size, scheme, address)
            assert len(content) <= MOST_BYTES, f"{name} has {len(content):,} bytes"
            out = DOCS / "figures" / f"{name}.webp"
            out.write_bytes(content)
            print(out.relative_to(DOCS.parent), f"{len(content):,} bytes")
        browser.close()


if __name__ == "__main__":
    main()
