"""Draw learning curves: validation accuracy and training loss over epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nearsight.report.figures.drawing import Drawing, Panel, end_labels, labels_fit
from nearsight.report.read import ConditionRuns, Family
from nearsight.runs.records import EpochLine
from nearsight.stats import Estimate, over_seeds, wilson_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def accuracy_curve(condition: ConditionRuns) -> list[Estimate]:
    """Estimate the validation accuracy in percent at every epoch that was scored.

    With several seeds the interval is over seeds, and the curve ends with the shortest run. With
    one seed the interval is over validation images.
    """
    logs = [[score for _, score in scores(run.log)] for run in condition.runs]
    if condition.num_seeds > 1:
        return [over_seeds([100 * x for x in epoch]) for epoch in zip(*logs)]
    n = condition.runs[0].trained.data.num_validation
    curve = []
    for value in logs[0]:
        low, high = wilson_interval(value, n)
        curve.append(Estimate(100 * value, 100 * low, 100 * high, n, "images"))
    return curve


def scores(log: list[EpochLine]) -> list[tuple[int, float]]:
    """Return epoch and score of the epochs that were scored."""
    return [(line.epoch, line.score) for line in log if line.score is not None]


def score_name(family: Family) -> str:
    """Name the score of a family's runs: accuracy, or k-NN accuracy if no labels were learned."""
    lines = [line for condition in family.conditions for run in condition.runs for line in run.log]
    by_knn = {line.validation_accuracy is None for line in lines if line.score is not None}
    names = {True: "k-NN accuracy", False: "accuracy"}
    return " or ".join(names[x] for x in sorted(by_knn)) or "accuracy"


def loss_curve(condition: ConditionRuns) -> list[float]:
    """Return the mean training loss over seeds, up to the last epoch of the shortest run."""
    logs = [[line.train_loss for line in run.log] for run in condition.runs]
    return [sum(epoch) / len(epoch) for epoch in zip(*logs)]


def draw_accuracy(axes: Axes, family: Family) -> None:
    """Draw validation accuracy, with a mark at the epoch whose weights were kept."""
    from matplotlib.ticker import MaxNLocator

    ends = []
    for condition in family.conditions:
        curve = accuracy_curve(condition)
        epochs = [epoch for epoch, _ in scores(condition.runs[0].log)][: len(curve)]
        low, high = [x.low for x in curve], [x.high for x in curve]
        axes.fill_between(epochs, low, high, color=condition.colour, alpha=0.22, linewidth=0)
        axes.plot(
            epochs, [x.value for x in curve], color=condition.colour, linestyle=condition.line
        )
        for run in condition.runs:
            best, value = _best(run.log)
            axes.plot([best], [value], marker=condition.marker, color=condition.colour)
        if curve:
            ends.append((curve[-1].value, condition))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("epoch")
    axes.set_ylabel(f"validation {score_name(family)} (%)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if labels_fit(family.conditions):
        end_labels(axes, ends)


def _best(log: list[EpochLine]) -> tuple[int, float]:
    """Return the epoch whose weights were kept (the first of the best), and its accuracy."""
    epoch, best = max(scores(log), key=lambda x: x[1])
    return epoch, 100 * best


def draw_loss(axes: Axes, family: Family) -> None:
    """Draw the training loss."""
    from matplotlib.ticker import MaxNLocator

    ends = []
    for condition in family.conditions:
        curve = loss_curve(condition)
        epochs = range(1, len(curve) + 1)
        axes.plot(epochs, curve, color=condition.colour, linestyle=condition.line)
        if curve:
            ends.append((curve[-1], condition))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("epoch")
    axes.set_ylabel("training loss")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if labels_fit(family.conditions):
        end_labels(axes, ends)


def learning_curves(family: Family, key: str, subtitle: str) -> Drawing:
    """Return the figure of learning curves."""
    conditions = family.conditions
    several = any(condition.num_seeds > 1 for condition in conditions)
    bands = f"95 % intervals over {'seeds' if several else 'validation images'}"
    name = score_name(family)
    best = ", ".join(
        f"{condition.label} {max(_best(run.log)[1] for run in condition.runs):.1f} %"
        for condition in conditions
    )
    rows = tuple(
        (
            condition.label, run.seed, line.epoch, line.train_loss,
            line.validation_loss, line.score,
        )
        for condition in conditions
        for run in condition.runs
        for line in run.log
    )  # fmt: skip
    return Drawing(
        key=key,
        title="Learning curves",
        subtitle=subtitle,
        reading=f"A mark is the epoch whose weights were kept. Bands are {bands}. Do not compare "
        "the training losses of protocols with different targets (mixed or smoothed labels).",
        alt=f"Line charts of validation {name} and training loss over epochs. Best validation "
        f"{name}: {best}.",
        panels=(
            Panel(f"Validation {name}", lambda axes: draw_accuracy(axes, family)),
            Panel("Training loss", lambda axes: draw_loss(axes, family)),
        ),
        columns=(
            "condition", "seed", "epoch", "train_loss", "validation_loss", "validation_accuracy",
        ),
        rows=rows,
        legend=() if labels_fit(conditions) else conditions,
        colours=tuple(condition.colour for condition in conditions),
    )  # fmt: skip
