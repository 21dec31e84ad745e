"""Draw the gain from local attention by width and depth, beside its controls, and by layer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nearsight.core import write_bytes
from nearsight.report.figures.drawing import (
    MUTED,
    Drawing,
    Panel,
    end_labels,
    layer_colours,
    whole_figure,
)
from nearsight.report.read import TEXT
from nearsight.runs.records import LocaliseRecord, TriedLocality

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CHOSEN_COLOUR = "#0072B2"
COLUMNS = ("name", "role", "layer", "score", "low", "high", "gain", "gain_low", "gain_high")
Depths = dict[int, list[tuple[float, TriedLocality]]]  # number of last layers -> (width, result)


def gains_by_depth(record: LocaliseRecord) -> Depths:
    """Return the candidates with a width, by the number of last layers that are local.

    The name of a candidate is KIND:WIDTH@lastDEPTH. Windows are left out, because they have a side
    and no width.
    """
    found: Depths = {}
    for each in record.tried:
        if each.role != "candidate" or each.locality is None or each.gain is None:
            continue
        what, _, layers = each.locality.partition("@")
        kind, _, value = what.partition(":")
        if kind != "window" and layers.startswith("last"):
            depth = int(layers.removeprefix("last"))
            found.setdefault(depth, []).append((float(value), each))
    return {depth: sorted(found[depth], key=lambda x: x[0]) for depth in sorted(found)}


def search_drawings(record: LocaliseRecord) -> list[Drawing]:
    """Return the figures of localise.json: gains, controls and layers.

    Without scores on the validation images there is no figure of controls.
    """
    searched = record.searched
    words = (
        f"{record.model} · {searched.data} · {record.method} · {searched.num_train} and "
        f"{searched.num_scored} held-out training images"
    )
    found = [_gain_drawing(record, words)]
    if record.scored is not None:
        scored = record.scored
        on_val = (
            f"{record.model} · {scored.data} {scored.split} · {record.method} · "
            f"{scored.num_train:,} training images, n = {scored.num_scored:,}"
        )
        found.append(_control_drawing(record, on_val))
    return [*found, _layer_drawing(record, words)]


def _gain_drawing(record: LocaliseRecord, subtitle: str) -> Drawing:
    depths = gains_by_depth(record)
    tried = [each for line in depths.values() for _, each in line]
    best = max(tried, key=lambda each: each.score.value)
    assert best.gain is not None
    return Drawing(
        key="localise-gain",
        title="What local attention gains, by width and by number of layers",
        subtitle=subtitle,
        reading="A point is how many percentage points of mIoU the model gains over the plain "
        "model if a Gaussian of this width is added to the attention logits of its last layers. "
        "Whiskers are 95 % intervals, paired over images. The setting was chosen on these images, "
        "so they overrate it; its gain on the validation images does not.",
        alt=f"Lines of the gain over the width, one for each number of layers. The largest gain is "
        f"{100 * best.gain.value:+.1f} points with {best.name}.",
        panels=(Panel("gain over the plain model", partial(_draw_gain, depths=depths)),),
        columns=COLUMNS,
        rows=tuple(map(_row, tried)),
        inks=tuple(layer_colours(len(depths))),
    )


def _draw_gain(axes: Axes, depths: Depths) -> None:
    axes.axhline(0, color=MUTED, linewidth=0.8)
    shift, ends = 1.0, []
    for (depth, line), colour in zip(depths.items(), layer_colours(len(depths))):
        widths = [width * shift for width, _ in line]
        values, errors = _points([each for _, each in line])
        axes.errorbar(widths, values, errors, color=colour, marker="o", capsize=2, elinewidth=0.8)
        ends.append((values[-1], "last layer" if depth == 1 else f"last {depth} layers"))
        shift *= 1.02  # whiskers of different depths stand beside each other
    ticks = sorted({width for line in depths.values() for width, _ in line})
    axes.set_xscale("log")
    axes.set_xlim(min(ticks) / 1.2, max(ticks) * 1.2)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("width of the Gaussian (patches)")
    axes.set_ylabel("gain (points of mIoU)")
    end_labels(axes, [], ends)


def _control_drawing(record: LocaliseRecord, subtitle: str) -> Drawing:
    shown = [each for each in record.results if each.gain is not None]
    told = "; ".join(
        f"{x.name} {100 * x.gain.value:+.1f} ({100 * x.gain.low:+.1f} to {100 * x.gain.high:+.1f})"
        for x in shown
        if x.gain is not None
    )
    return Drawing(
        key="localise-controls",
        title="What causes the gain? The chosen setting and its controls",
        subtitle=subtitle,
        reading="A point is the gain over the plain model, in percentage points of mIoU, on "
        "validation images, on which nothing was chosen. Blue is the chosen setting. Locality "
        "causes its gain only if the grey controls gain less: identity and window:1 let patches "
        "attend only to themselves; shifted is as narrow, but around a wrong patch; sinks hides "
        "the patches that attract most attention; keep-share leaves the prefix tokens their share "
        "of attention. Whiskers are 95 % intervals, paired over images.",
        alt=f"Dots with whiskers of the gain over the plain model: {told}.",
        panels=(Panel("gain over the plain model", partial(_draw_controls, shown=shown)),),
        columns=COLUMNS,
        rows=tuple(map(_row, record.results)),
        inks=(CHOSEN_COLOUR,),
        panel_size=(5.2, 0.9 + 0.26 * len(shown)),
    )


def _draw_controls(axes: Axes, shown: Sequence[TriedLocality]) -> None:
    axes.axvline(0, color=MUTED, linewidth=0.8)
    values, errors = _points(shown)
    for place, each in enumerate(shown):
        colour = CHOSEN_COLOUR if each.role == "chosen" else MUTED
        error = [[errors[0][place]], [errors[1][place]]]
        axes.errorbar(
            [values[place]], [place], xerr=error, color=colour, marker="o", capsize=2,
            elinewidth=0.8,
        )  # fmt: skip
    axes.set_yticks(range(len(shown)), [each.name for each in shown])
    axes.invert_yaxis()
    axes.set_xlabel("gain (points of mIoU)")


def _layer_drawing(record: LocaliseRecord, subtitle: str) -> Drawing:
    best = max(record.layers, key=lambda each: each.score.value)
    return Drawing(
        key="localise-layers",
        title="How good and how local each layer of the plain model is",
        subtitle=subtitle,
        reading="A point is a layer, with its number. Layers further up have better features "
        "(mIoU); layers further left attend more locally (MAD). Whiskers are 95 % intervals over "
        "images.",
        alt=f"Scatter of mIoU against mean attention distance. The best layer is {best.layer} with "
        f"{100 * best.score.value:.1f}.",
        panels=(Panel("layers of the plain model", partial(_draw_layers, record=record)),),
        columns=("layer", "mad", "score", "low", "high"),
        rows=tuple(
            (each.layer, each.mad, each.score.value, each.score.low, each.score.high)
            for each in record.layers
        ),
        inks=tuple(layer_colours(len(record.layers))),
    )


def _draw_layers(axes: Axes, record: LocaliseRecord) -> None:
    for each, colour in zip(record.layers, layer_colours(len(record.layers))):
        value = 100 * each.score.value
        low, high = value - 100 * each.score.low, 100 * each.score.high - value
        axes.errorbar(
            [each.mad], [value], [[max(0.0, low)], [max(0.0, high)]], color=colour, marker="o",
            capsize=2, elinewidth=0.8,
        )  # fmt: skip
        axes.annotate(
            str(each.layer), (each.mad, value), (4, 4), textcoords="offset points", color=TEXT,
            fontsize=7,
        )  # fmt: skip
    axes.set_xlabel("mean attention distance (grid diagonals)")
    axes.set_ylabel("mIoU (percent)")


def _points(tried: Sequence[TriedLocality]) -> tuple[list[float], list[list[float]]]:
    """Return gains in percentage points, and how far their intervals extend on both sides."""
    gains = [each.gain for each in tried if each.gain is not None]
    values = [100 * gain.value for gain in gains]
    below = [max(0.0, 100 * (gain.value - gain.low)) for gain in gains]
    above = [max(0.0, 100 * (gain.high - gain.value)) for gain in gains]
    return values, [below, above]


def _row(each: TriedLocality) -> tuple[object, ...]:
    gain = each.gain
    paired = (None, None, None) if gain is None else (gain.value, gain.low, gain.high)
    score = each.score
    return (each.name, each.role, each.layer, score.value, score.low, score.high, *paired)


def write_search_figures(record: LocaliseRecord, folder: Path) -> list[Path]:
    """Write the figures of a search into a folder as SVG and return their paths."""
    paths = []
    for drawing in search_drawings(record):
        path = folder / f"{drawing.key}.svg"
        write_bytes(path, whole_figure(drawing, "svg"))
        paths.append(path)
    return paths
