"""Draw the gates of GPSA, the share of positional attention, head by head.

The figures follow figure 6 of ConViT (d'Ascoli et al., 2021). One shows the gates over the epochs,
with a panel for each layer, a line for each head and a thick line for their mean; the other shows
them through the layers of the trained model. Heads of different seeds have separate lines, because
head 1 of one seed does not correspond to head 1 of another; only the mean is averaged over seeds.
"""

from __future__ import annotations

from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any

from nearsight.report.figures.drawing import TEXT, Drawing, Panel, end_labels, labels_fit
from nearsight.report.read import ConditionRuns, Family, Gates
from nearsight.stats import Estimate, over_seeds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SMALL_PANEL = (1.62, 1.5)  # inches; four stand side by side, two on a phone
READING = (
    "A gate is the share of a head's attention that depends on position alone: with gate 1 a head "
    "attends to fixed places around a patch, with gate 0 it attends by content."
)


def gate_curves(condition: ConditionRuns) -> dict[int, dict[int, list[list[float]]]]:
    """Return the gates as [seed][head], by layer (from 0) and epoch; other layers are left out."""
    found: dict[int, dict[int, list[list[float]]]] = {}
    for epoch, looks in condition.looks.items():
        for layer, of_seeds in enumerate(zip(*(look.learned.layers(Gates) for look in looks))):
            gates = [x.gate for x in of_seeds if x is not None and x.gate is not None]
            if len(gates) == len(looks):
                found.setdefault(layer, {})[epoch] = gates
    return found


def final_gates(condition: ConditionRuns) -> dict[int, list[list[float]]]:
    """Return the gates of the trained model as [seed][head], for the layers (from 0) with gates."""
    found = {}
    for layer, of_seeds in enumerate(zip(*(run.learned.layers(Gates) for run in condition.runs))):
        gates = [x.gate for x in of_seeds if x is not None and x.gate is not None]
        if len(gates) == condition.num_seeds:
            found[layer] = gates
    return found


def mean_gate(gates: list[list[float]]) -> Estimate | None:
    """Estimate the mean over heads, over seeds.

    Returns:
        The estimate; None with one seed, because the gates of one model are not a sample.
    """
    means = [fmean(heads) for heads in gates]
    return over_seeds(means) if len(means) > 1 else None


def draw_layer(
    axes: Axes, condition: ConditionRuns, by_epoch: dict[int, list[list[float]]]
) -> None:
    """Draw every head of every seed, and their mean in black with its interval over seeds."""
    from matplotlib.ticker import MaxNLocator

    epochs = list(by_epoch)
    for seed in range(condition.num_seeds):
        for heads in zip(*(gates[seed] for gates in by_epoch.values())):
            axes.plot(epochs, heads, color=condition.colour, linewidth=0.8, alpha=0.75)
    means = [fmean(map(fmean, gates)) for gates in by_epoch.values()]
    bands = [x for x in map(mean_gate, by_epoch.values()) if x is not None]
    if bands:
        low, high = [x.low for x in bands], [x.high for x in bands]
        axes.fill_between(epochs, low, high, color=TEXT, alpha=0.15, linewidth=0)
    axes.plot(epochs, means, color=TEXT, linewidth=1.8)
    axes.set_ylim(0, 1)
    axes.set_yticks([0, 0.5, 1])
    axes.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True, min_n_ticks=1))
    axes.set_xlabel("epoch")
    axes.set_ylabel("gate")


def gate_training(family: Family, number: str) -> list[Drawing]:
    """Return a figure per condition whose gates were measured while its runs trained."""
    key, subtitle = f"gates-training{number}", f"{family.name} · {family.seeds_text}"
    found = [(c, curves) for c in family.conditions if (curves := gate_curves(c))]
    keys = [key] if len(found) == 1 else [f"{key}-{number}" for number in range(1, len(found) + 1)]
    return [_of_condition(*each, key, subtitle) for each, key in zip(found, keys)]


def _of_condition(
    condition: ConditionRuns,
    curves: dict[int, dict[int, list[list[float]]]],
    key: str,
    subtitle: str,
) -> Drawing:
    ends = ", ".join(
        f"layer {layer + 1} {fmean(map(fmean, list(by_epoch.values())[-1])):.2f}"
        for layer, by_epoch in curves.items()
    )
    band = " with its 95 % interval over seeds" if condition.num_seeds > 1 else ""
    return Drawing(
        key=key,
        title=f"Gates while training: {condition.label}",
        subtitle=subtitle,
        reading=f"{READING} A thin line is one head{' of one seed' * (condition.num_seeds > 1)}, "
        f"the thick line their mean{band}. Epoch 0 is before training.",
        alt=f"Line charts of gates over epochs, a panel per layer. Mean at the end: {ends}.",
        panels=tuple(
            Panel(f"layer {layer + 1}", partial(draw_layer, condition=condition, by_epoch=by_epoch))
            for layer, by_epoch in curves.items()
        ),
        columns=("condition", "seed", "layer", "head", "epoch", "gate"),
        rows=tuple(
            (condition.label, run.seed, layer + 1, head, epoch, gate)
            for layer, by_epoch in curves.items()
            for epoch, gates in by_epoch.items()
            for run, heads in zip(condition.runs, gates)
            for head, gate in enumerate(heads, 1)
        ),
        panel_size=SMALL_PANEL,
        per_row=4,
        colours=(condition.colour,),
    )


def draw_depth(axes: Axes, family: Family, conditions: list[ConditionRuns]) -> None:
    """Draw a point per head, and a line through the means of the layers."""
    from matplotlib.ticker import MaxNLocator

    ends = []
    for number, condition in enumerate(conditions):
        gates = final_gates(condition)
        shift = 0.5 * ((number + 0.5) / len(conditions) - 0.5)  # conditions side by side
        points = [
            (layer + 1 + shift, gate)
            for layer, of_seeds in gates.items()
            for heads in of_seeds
            for gate in heads
        ]
        style: dict[str, Any] = {"color": condition.colour, "marker": condition.marker}
        axes.plot(
            *zip(*points), linestyle="none", markersize=2.8, alpha=0.55, clip_on=False, **style
        )
        means = [fmean(map(fmean, of_seeds)) for of_seeds in gates.values()]
        places = [layer + 1 + shift for layer in gates]
        bands = [x for x in map(mean_gate, gates.values()) if x is not None]
        arms = [[x.value - x.low for x in bands], [x.high - x.value for x in bands]]
        axes.errorbar(
            places, means, yerr=arms if bands else None, elinewidth=0.9, linestyle=condition.line,
            **style,
        )  # fmt: skip
        ends.append((means[-1], condition))
    axes.set_ylim(0, 1)
    axes.set_xlim(0.5, family.num_layers + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("layer")
    axes.set_ylabel("gate")
    if labels_fit(conditions):
        end_labels(axes, ends)


def gate_drawings(family: Family, number: str) -> list[Drawing]:
    """Return the figure of the gates of trained models, if they have any."""
    seeds = "" if family.is_models else f" · {family.seeds_text}"
    drawing = gate_depth(family, f"gates{number}", f"{family.name}{seeds}")
    return [drawing] if drawing else []


def gate_depth(family: Family, key: str, subtitle: str) -> Drawing | None:
    """Return the figure of gates through the layers; None if no condition has gates."""
    conditions = [c for c in family.conditions if final_gates(c)]
    if not conditions:
        return None
    tables = {c.label: final_gates(c) for c in conditions}
    several = any(condition.num_seeds > 1 for condition in conditions)
    whiskers = "Whiskers are 95 % intervals of this mean over seeds. " if several else ""
    ends = "; ".join(
        f"{label} from {fmean(map(fmean, gates[min(gates)])):.2f} in layer {min(gates) + 1} to "
        f"{fmean(map(fmean, gates[max(gates)])):.2f} in layer {max(gates) + 1}"
        for label, gates in tables.items()
    )
    return Drawing(
        key=key,
        title="Gates through the layers",
        subtitle=subtitle,
        reading=f"{READING} Small marks are heads, and the line joins the means of the layers. "
        f"{whiskers}Layers without a mark have no gates. The tables below give the centre and the "
        "span of every head.",
        alt=f"Chart of gates by layer, a point per head. Mean gate: {ends}.",
        panels=(
            Panel(
                "At the end",
                partial(draw_depth, family=family, conditions=conditions),
            ),
        ),
        columns=("condition", "seed", "layer", "head", "gate"),
        rows=tuple(
            (c.label, run.seed, layer + 1, head, gate)
            for c in conditions
            for layer, of_seeds in tables[c.label].items()
            for run, heads in zip(c.runs, of_seeds)
            for head, gate in enumerate(heads, 1)
        ),
        legend=() if labels_fit(conditions) else tuple(conditions),
        colours=tuple(condition.colour for condition in conditions),
    )
