"""Draw the measured centres of a toy's tokens, or compare their search with measuring in time.

python benchmarks/places.py docs/figures/places.svg
python benchmarks/places.py --time timm/levit_128s
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
from torch import nn

from nearsight.measure.capture import Place
from nearsight.measure.layout.placing import Placed, place_model
from nearsight.measure.layout.placing.call_places import place_call
from nearsight.measure.layout.placing.centres import centres_of
from nearsight.measure.layout.placing.probe import QUIET, Probe

ROWS, COLS, PIXELS, WIDTH = 6, 9, 8, 64
NUM_IMAGES = 1000


class ShuffledToy(nn.Module):
    """A model with patches in random order after two convolutions, and one layer of attention."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PIXELS, stride=PIXELS)
        self.mixing = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.register_buffer("order", torch.randperm(ROWS * COLS))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.mixing(self.patches(images)).flatten(2).transpose(1, 2)[:, self.order]
        return x + self.attention(x, x, x, need_weights=False)[0]


def draw(path: Path) -> None:
    """Write the picture of docs/places.md."""
    from matplotlib.figure import Figure

    torch.manual_seed(2)
    size = (ROWS * PIXELS, COLS * PIXELS)
    with Probe(Place("", ShuffledToy().eval(), (torch.zeros(1, 3, *size),))) as probe:
        for number in range(10):
            probe.draw(number)
        (call,) = probe.calls
        found = place_call(call, size, QUIET[probe.dtype])
    assert isinstance(found, Placed)
    sums = torch.stack(call.moments["values"].draws).sum(0).sum(2)
    places = centres_of(sums, size, QUIET[probe.dtype]).places[0]
    figure = Figure(figsize=(6.5, 4.4), layout="constrained")
    axes = figure.subplots()
    rows = found.queries[0] // COLS
    axes.scatter(places[:, 1], places[:, 0], c=rows, cmap="viridis", s=170)
    for number, (y, x) in enumerate(places.tolist()):
        axes.text(x, y, str(number), ha="center", va="center", color="white", fontsize=7)
    axes.set(
        xlim=(0, size[1]), ylim=(size[0], 0), aspect="equal", xlabel="pixel column",
        ylabel="pixel row",
        title=f"Token number at its measured centre; gap {found.confidence:.2f} cells",
    )  # fmt: skip
    axes.set_xticks(range(0, size[1] + 1, PIXELS))
    axes.set_yticks(range(0, size[0] + 1, PIXELS))
    axes.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def compare(name: str, num: int = 8) -> None:
    """Print the time of the search beside that of measuring 1,000 images."""
    import nearsight as ns
    from nearsight.measure.coverage.building import builds

    side, model = next((side, x) for side, x in builds(name) if isinstance(x, nn.Module))
    images = torch.randn(num, 3, side, side)
    began = time.perf_counter()
    found = place_model(Place("", model.eval(), (images,)))
    search = time.perf_counter() - began
    ns.measure_model(model, images, metrics=("mad",))
    began = time.perf_counter()
    ns.measure_model(model, images, metrics=("mad",))
    measuring = (time.perf_counter() - began) / num * NUM_IMAGES
    print(f"{name} at {side}: {found.num_forwards} forwards, {search:.1f} s to place, "
          f"{measuring:.0f} s for {NUM_IMAGES} images, ratio {search / measuring:.3f}")  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1] == "--time":
        for each in sys.argv[2:]:
            compare(each)
    else:
        draw(Path(sys.argv[1]))
