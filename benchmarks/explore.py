"""Compare the explorer with its limits: size of pages, and times to write and to use one.

    python benchmarks/explore.py --weights FILE --images DIR [--model vit_tiny_patch16_224]

It needs playwright and Chromium; the variable ``CHROMIUM`` may name its executable. The page of
ViT-Ti contains real attention of the images. The page of ViT-B has as many heads as ViT-B, filled
with copies of ViT-Ti's, so its size and the work for a frame are realistic. A frame is timed from
one animation frame to the next while the pointer visits every patch. Filtering and sorting are
timed from the event to the frame after the change.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from playwright.sync_api import Page, sync_playwright

from nearsight.explore.document import SCRIPT, STYLE, bundled
from nearsight.explore.exploration import Exploration
from nearsight.explore.targets import explore_targets
from nearsight.runs import Examples

MB, KB = 1e6, 1e3
NUM_RUNS, NUM_MOVES = 1000, 3 * 196

FRAMES = """async (moves) => {
  const picture = document.querySelector('#picture'), box = picture.getBoundingClientRect();
  const frame = () => new Promise(requestAnimationFrame), times = [];
  let last = await frame();
  for (let move = 0; move < moves; move++) {
    const patch = (move * 61) % 196;
    picture.dispatchEvent(new PointerEvent('pointermove', {
      clientX: box.left + (patch % 14 + 0.5) * box.width / 14,
      clientY: box.top + (Math.floor(patch / 14) + 0.5) * box.height / 14, pointerType: 'mouse',
    }));
    const now = await frame();
    times.push(now - last);
    last = now;
  }
  return times.slice(1).sort((x, y) => x - y);
}"""

TABLE = """async (change) => {
  const done = () => new Promise((next) => requestAnimationFrame(() => setTimeout(next)));
  await done();
  const start = performance.now();
  if (change === 'filter') {
    const filter = document.querySelector('#filter');
    filter.value = 'runs/[1-4]\\\\d7 ';
    filter.dispatchEvent(new Event('input'));
  } else {
    [...document.querySelectorAll('table.runs thead button')].at(-1).click();
  }
  document.querySelector('table.runs').getBoundingClientRect();
  await done();
  return performance.now() - start;
}"""


@dataclass(frozen=True)
class Limit:
    """A number and its limit."""

    what: str
    value: float
    most: float
    unit: str

    def __str__(self) -> str:
        sign = "ok" if self.value <= self.most else "TOO MUCH"
        return f"{self.what:58s} {self.value:8.2f} of {self.most:g} {self.unit:3s} {sign}"


def bundle_limits() -> Iterator[Limit]:
    parts = [bundled(name).encode() for name in (SCRIPT, STYLE)]
    yield Limit("script and style, minified", sum(map(len, parts)) / KB, 200, "KB")
    small = sum(len(gzip.compress(part, 9)) for part in parts)
    yield Limit("script and style, gzipped", small / KB, 80, "KB")


def written_page(model: str, weights: Path, images: Path, out: Path) -> float:
    """Write a page of 4 images with the command, and return the seconds including start-up."""
    words = [sys.executable, "-m", "nearsight", "explore", model, "--weights", str(weights),
             "--images", str(images), "--out", str(out)]  # fmt: skip
    start = time.perf_counter()
    subprocess.run(words, check=True, capture_output=True)
    return time.perf_counter() - start


def one_image_pages(page: Exploration) -> list[Exploration]:
    """Return one page for each of a page's images, with this image alone."""
    (subject,) = page.subjects
    assert subject.examples is not None
    return [
        replace(page, subjects=(replace(subject, examples={**subject.examples, "images": [x]}),))
        for x in subject.examples["images"]
    ]


def widened(page: Exploration, times: int) -> Exploration:
    """Return a page with several times as many heads, copied from the page's other images."""
    (subject,) = page.subjects
    assert subject.examples is not None
    found = Examples.of_contents(subject.examples)
    places = tuple(replace(x, num_heads=times * x.num_heads) for x in found.layers)
    first = found.images[0]
    layers = tuple(
        type(first.layers[i]).of(
            np.concatenate([image.layers[i].weights(at) for image in found.images[:times]]),
            first.layers[i].likeness, first.layers[i].colours, places[i],
        )
        for i, at in enumerate(found.layers)
    )  # fmt: skip
    whole = replace(found, layers=places, images=(replace(first, layers=layers),))
    return replace(page, subjects=(replace(subject, examples=whole.contents(), numbers=None),))


def many_runs() -> Exploration:
    """Return a table of runs with numbers and settings, without curves."""
    values = {"accuracy": [0.5, 0.4, 0.6], "min_mad": [0.1, 0.09, 0.11], "mean_entropy": [0.5]}
    rows = tuple(
        {
            "name": f"runs/{i}", "protocol": ("baseline", "modern")[i % 2], "model": "compact_vit",
            "data": "cifar100", "seed": i % 7, "status": "finished", "settings": {"lr": i % 5},
            "values": {key: [x * (1 + i * 617 % 1009) / 1009 for x in value]
                       for key, value in values.items()},
            "curve": None, "note": "",
        }
        for i in range(NUM_RUNS)
    )  # fmt: skip
    return Exploration("many", (), rows)


@contextmanager
def chromium() -> Iterator[Page]:
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser.new_page(viewport={"width": 1440, "height": 900})
        browser.close()


def opened(page: Page, path: Path, address: str = "") -> None:
    page.goto(path.resolve().as_uri() + address)
    page.wait_for_selector("html[data-ready]", timeout=60_000)
    page.wait_for_timeout(1500)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--model", default="vit_tiny_patch16_224")
    given = parser.parse_args()
    limits = list(bundle_limits())
    with tempfile.TemporaryDirectory() as folder, chromium() as page:
        out = Path(folder)
        seconds = written_page(given.model, given.weights, given.images, out / "four.html")
        limits.append(Limit("nearsight explore, ViT-Ti, 4 images, with start-up", seconds, 15, "s"))
        tiny = explore_targets([given.model], given.images, weights=[given.weights])
        sizes = [len(each.html().encode()) for each in one_image_pages(tiny)]
        limits.append(Limit("page of ViT-Ti, one image (largest of 4)", max(sizes) / MB, 2, "MB"))
        base = widened(tiny, 4)
        path = base.write(out / "base.html")
        limits.append(Limit("page of ViT-B, one image", path.stat().st_size / MB, 7, "MB"))
        opened(page, path)
        layers = page.evaluate("nearsight.state.shown.value[0].examples.layers")
        assert [layer["num_heads"] for layer in layers] == [12] * 12
        times = page.evaluate(FRAMES, NUM_MOVES)
        p95 = times[int(0.95 * len(times))]
        limits.append(Limit("frame while hovering, 12 x 12 x 196, 95th percentile", p95, 33, "ms"))
        path = many_runs().write(out / "many.html")
        for change in ("filter", "sort"):
            taken = []
            for _ in range(7):
                opened(page, path)
                taken.append(page.evaluate(TABLE, change))
            what = f"{change} {NUM_RUNS:,} runs, slowest of 7"
            limits.append(Limit(what, max(taken), 100, "ms"))
    print(*limits, sep="\n")
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the end")
    if any(limit.value > limit.most for limit in limits):
        sys.exit(1)


if __name__ == "__main__":
    main()
