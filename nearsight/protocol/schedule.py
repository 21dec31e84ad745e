"""Compute the learning rate of every step: a linear warm-up, then one of four schedules.

| schedule | after the warm-up |
|---|---|
| cosine | half a cosine from the peak to ``final_lr`` |
| triangular | a straight line from the peak to ``final_lr`` (Smith & Topin 2018; LocAt) |
| constant | the peak |
| step | the peak, multiplied by ``step_factor`` every ``step_epochs``, never below ``final_lr`` |

The rate changes at every step, not only at every epoch. Nothing here needs torch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from nearsight.protocol.schema import Protocol, Schedule

PLOT_WIDTH, PLOT_HEIGHT = 64, 12
BLOCKS = " ▁▂▃▄▅▆▇█"


def cosine_between(first: float, last: float, done: float) -> float:
    """Interpolate along half a cosine from ``first`` (``done`` is 0) to ``last`` (``done`` is 1).

    >>> [round(cosine_between(1.0, 0.0, done), 3) for done in (0.0, 0.25, 0.5, 1.0)]
    [1.0, 0.854, 0.5, 0.0]
    """
    return last + (first - last) * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def learning_rate(
    step: int,
    num_steps: int,
    warmup_steps: int,
    peak: float,
    start: float = 0.0,
    end: float = 0.0,
    *,
    schedule: Schedule = "cosine",
    steps_per_fall: float = math.inf,
    factor: float = 0.1,
) -> float:
    """Return the learning rate of a step: linear up to the peak, then as the schedule says.

    Args:
        step: The step, counted from 0.
        num_steps: Steps of the whole training.
        warmup_steps: Steps of the warm-up; the last of them has the peak.
        peak: The highest rate.
        start: The rate before the first step.
        end: The rate after the last step.
        schedule: What follows the warm-up.
        steps_per_fall: For schedule "step": steps between two reductions.
        factor: For schedule "step": what each reduction multiplies the rate by.

    >>> [round(learning_rate(s, 6, 2, 1.0), 3) for s in range(7)]
    [0.5, 1.0, 1.0, 0.854, 0.5, 0.146, 0.0]
    >>> [round(learning_rate(s, 6, 2, 1.0, schedule="triangular"), 3) for s in range(7)]
    [0.5, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0]
    """
    if step < warmup_steps:
        return start + (peak - start) * (step + 1) / warmup_steps
    after = step - warmup_steps
    done = after / max(1, num_steps - warmup_steps)
    if schedule == "constant":
        return peak
    if schedule == "step":
        return max(min(end, peak), peak * factor ** int(after / steps_per_fall))
    if schedule == "triangular":
        return end + (peak - end) * (1 - min(1.0, done))
    return cosine_between(peak, end, done)


def protocol_rate(protocol: Protocol, step: int, steps_per_epoch: int) -> float:
    """Return the learning rate of a protocol at a step.

    >>> from nearsight.protocol import preset
    >>> round(protocol_rate(preset("baseline"), 4, 1), 6)  # the end of its warm-up
    0.0003
    """
    rates = protocol.optimizer
    return learning_rate(
        step, protocol.epochs * steps_per_epoch, round(protocol.warmup_epochs * steps_per_epoch),
        peak=rates.lr, start=rates.warmup_lr, end=rates.final_lr, schedule=rates.schedule,
        steps_per_fall=rates.step_epochs * steps_per_epoch, factor=rates.step_factor,
    )  # fmt: skip


def weight_decay(protocol: Protocol, step: int, steps_per_epoch: int) -> float:
    """Return the weight decay of a protocol at a step, counted from 0.

    >>> from nearsight.protocol import preset
    >>> [round(weight_decay(preset("dino"), step, 1), 2) for step in (0, 50, 100)]
    [0.04, 0.22, 0.4]
    """
    settings = protocol.optimizer
    if settings.final_weight_decay is None:
        return settings.weight_decay
    done = step / (protocol.epochs * steps_per_epoch)
    return cosine_between(settings.weight_decay, settings.final_weight_decay, done)


def schedule_text(protocol: Protocol) -> str:
    """Return a chart of a protocol's learning rate for the terminal."""
    steps = 100  # per epoch, enough for a smooth curve
    total = protocol.epochs * steps
    at = [round(x * (total - 1) / (PLOT_WIDTH - 1)) for x in range(PLOT_WIDTH)]
    rates = [protocol_rate(protocol, step, steps) for step in at]
    kind = protocol.optimizer.schedule
    title = (
        f"learning rate of {protocol.name}: {kind}, warm-up {protocol.warmup_epochs:g} of "
        f"{protocol.epochs} epochs, peak {protocol.optimizer.lr:g}"
    )
    return chart(title, rates, protocol.epochs)


def chart(title: str, values: Sequence[float], epochs: int) -> str:
    """Return a filled line chart as text, with the highest value at the top and epochs below.

    >>> print(chart("up", [0.0, 1.0, 2.0], 30).splitlines()[1])
           2   █
    """
    highest = max(max(values), 1e-30)
    eighths = [round(value / highest * PLOT_HEIGHT * 8) for value in values]
    lines = [title]
    for row in reversed(range(PLOT_HEIGHT)):
        bar = "".join(BLOCKS[min(8, max(0, each - 8 * row))] for each in eighths)
        label = f"{highest:8.3g}" if row == PLOT_HEIGHT - 1 else " " * 8
        lines.append(f"{label} {bar}".rstrip())
    right = f"{epochs}"
    lines.append(f"{'epoch':>8} 0{right:>{max(1, len(values) - 1)}}")
    return "\n".join(lines)
