"""The schedules against torch's own, their ends, and their drawing."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch.optim import lr_scheduler

from nearsight.protocol import Optimizer, at_fraction, override, preset
from nearsight.protocol.schedule import chart, learning_rate, protocol_rate, schedule_text

STEPS, WARMUP, FALL = 43, 7, 11
PEAK, START, END, FACTOR = 0.6, 0.05, 0.01, 0.3


def torch_rates(schedule: str, warmup: int) -> list[float]:
    """The rates of torch's scheduler after torch's linear warm-up."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=PEAK)
    rest = STEPS - warmup
    after = {
        "cosine": lambda: lr_scheduler.CosineAnnealingLR(optimizer, rest, eta_min=END),
        "triangular": lambda: lr_scheduler.LinearLR(optimizer, 1.0, END / PEAK, rest),
        "constant": lambda: lr_scheduler.ConstantLR(optimizer, 1.0, 1),
        "step": lambda: lr_scheduler.StepLR(optimizer, FALL, FACTOR),
    }[schedule]
    if warmup:
        first = (START + (PEAK - START) / warmup) / PEAK
        up = lr_scheduler.LinearLR(optimizer, first, 1.0, warmup - 1)
        scheduler = lr_scheduler.SequentialLR(optimizer, [up, after()], [warmup])
    else:
        scheduler = after()
    rates = []
    for _ in range(STEPS):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


@pytest.mark.filterwarnings("ignore:The epoch parameter in:UserWarning")
@pytest.mark.parametrize("warmup", [0, WARMUP])
@pytest.mark.parametrize("schedule", ["cosine", "triangular", "constant", "step"])
def test_every_schedule_has_the_rates_of_torch(schedule: str, warmup: int) -> None:
    end = 0.0 if schedule == "step" else END
    ours = [
        learning_rate(
            step, STEPS, warmup, PEAK, START, end, schedule=schedule, steps_per_fall=FALL,
            factor=FACTOR,
        )
        for step in range(STEPS)
    ]  # fmt: skip
    assert ours == pytest.approx(torch_rates(schedule, warmup), rel=1e-9)


def test_the_rate_climbs_to_the_peak_and_falls_to_zero() -> None:
    rates = [learning_rate(step, 11, 3, 0.6) for step in range(12)]
    assert rates[:3] == pytest.approx([0.2, 0.4, 0.6])
    assert rates[3] == pytest.approx(0.6)
    assert rates[7] == pytest.approx(0.3)  # half of the 8 steps after the warm-up
    assert rates[11] == pytest.approx(0.0, abs=1e-15)
    assert all(later < earlier for earlier, later in pairwise(rates[3:]))


def test_the_rate_climbs_from_its_start_and_ends_at_its_end() -> None:
    rates = [learning_rate(step, 10, 4, peak=1.0, start=0.2, end=0.1) for step in range(11)]
    assert rates[:4] == pytest.approx([0.4, 0.6, 0.8, 1.0])
    assert rates[4] == pytest.approx(1.0)
    assert rates[7] == pytest.approx(0.55)  # half-way through the cosine
    assert rates[10] == pytest.approx(0.1)


def test_no_warmup_starts_at_the_peak() -> None:
    assert learning_rate(0, 5, 0, 0.7) == 0.7


def test_steps_never_fall_below_the_end() -> None:
    rates = [
        learning_rate(step, 50, 0, 1.0, end=0.2, schedule="step", steps_per_fall=10)
        for step in range(50)
    ]
    assert rates[:10] == [1.0] * 10
    assert rates[10:] == [0.2] * 40


def test_a_protocol_has_its_rate_by_steps_of_an_epoch() -> None:
    protocol = override(
        preset("baseline", "shapes"),
        ["optimizer.schedule=step", "optimizer.step_epochs=5", "optimizer.step_factor=0.5"],
    )  # 2 epochs of warm-up, rate 1e-3
    assert protocol_rate(protocol, 2 * 13 - 1, 13) == pytest.approx(1e-3)
    assert protocol_rate(protocol, 7 * 13 - 1, 13) == pytest.approx(1e-3)
    assert protocol_rate(protocol, 7 * 13, 13) == pytest.approx(5e-4)


def test_a_fraction_of_the_data_stretches_the_steps_of_schedule_step_alone() -> None:
    rates = Optimizer(schedule="step", step_epochs=6)
    stepped = at_fraction(replace(preset("modern"), optimizer=rates), 0.1)
    assert stepped.optimizer.step_epochs == 60
    assert at_fraction(preset("modern"), 0.1).optimizer == preset("modern").optimizer


def test_the_chart_fills_up_to_each_value() -> None:
    lines = chart("title", [0.0, 0.5, 1.0], 9).splitlines()
    columns = [[line.ljust(12)[9 + i] for line in lines[1:-1]] for i in range(3)]
    assert [column.count("█") for column in columns] == [0, 6, 12]
    assert lines[0] == "title"
    assert lines[-1].split() == ["epoch", "0", "9"]


def test_the_plot_of_a_preset_names_its_schedule_and_peak() -> None:
    text = schedule_text(preset("deit", "folder:/photos"))
    assert "cosine, warm-up 5 of 300 epochs, peak 0.001" in text
