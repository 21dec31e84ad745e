"""Draw the measured centres of a toy's tokens, or compare their search with measuring in time.

python benchmarks/places.py docs/figures/places.svg
python benchmarks/places.py --time timm/vit_tiny_patch16_224 timm/levit_128s timm/twins_svt_small
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


def compare(names: list[str], rounds: int = 1) -> None:
    """Print the time of the search beside that of measuring 1,000 images, in turns.

    Processor time is compared, on one thread, because other work may share the machine. All images
    are really measured.
    """
    import nearsight as ns
    from nearsight.measure.coverage.building import builds

    torch.set_num_threads(1)
    models, times = {}, {name: ([], []) for name in names}
    for name in names:
        models[name] = next(
            (side, x.eval()) for side, x in builds(name) if isinstance(x, nn.Module)
        )
        side, model = models[name]
        ns.measure_model(model, torch.randn(2, 3, side, side), metrics=("mad",))  # warm up
    for number in range(rounds):
        for name, (side, model) in models.items():
            images = torch.randn(NUM_IMAGES, 3, side, side)
            began = time.process_time()
            found = place_model(Place("", model, (images[:1],)))
            between = time.process_time()
            ns.measure_model(model, images, metrics=("mad",))
            ended = time.process_time()
            times[name][0].append(between - began)
            times[name][1].append(ended - between)
            search, measuring = (sum(each) / len(each) for each in times[name])
            print(f"round {number + 1}, {name} at {side}: {found.num_forwards} forwards, "
                  f"{search:.1f} s to place, {measuring:.1f} s for {NUM_IMAGES} images, "
                  f"ratio {search / measuring:.3f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1] == "--time":
        compare(sys.argv[2:])
    else:
        draw(Path(sys.argv[1]))
