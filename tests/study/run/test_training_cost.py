"""Operations of a study, solved by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nearsight.models.cost import named_cost
from nearsight.protocol import Distillation, override, preset
from nearsight.study.design import Condition, Study
from nearsight.study.run.training_cost import study_cost, training_operations

PROTOCOL = replace(preset("baseline", "cifar10", "mu_vit"), epochs=7)
FORWARD = named_cost("mu_vit", (32, 32), num_classes=10).cost.flops


def test_training_costs_three_passes_and_validation_one() -> None:
    expected = 7 * (40_000 * 3 + 10_000) * FORWARD
    assert training_operations(PROTOCOL) == pytest.approx(expected)


def test_a_fraction_of_the_data_costs_that_fraction() -> None:
    tenth = replace(PROTOCOL, data=replace(PROTOCOL.data, fraction=0.1))
    assert training_operations(tenth) == pytest.approx(training_operations(PROTOCOL) / 10)


def test_a_teacher_costs_a_pass_of_its_own_for_every_training_image() -> None:
    taught = replace(
        PROTOCOL, distillation=Distillation(teacher="resnet10t", weights="random", kind="soft")
    )
    teacher = named_cost("resnet10t", (176, 176), num_classes=10).cost.flops
    added = training_operations(taught) - training_operations(PROTOCOL)
    assert added == pytest.approx(7 * 40_000 * teacher)


def test_dino_costs_its_views_the_teachers_two_and_the_features_of_its_knn() -> None:
    """Two large views and two of a quarter, 3 passes each; the teacher's 2; half of the k-NNs."""
    taught = override(
        preset("dino", "cifar10", "mu_vit"),
        ["epochs=7", "dino.num_local=2", "dino.local_size=16", "dino.knn_every=2"],
    )
    views = 3 * (2 + 2 / 4) + 2
    expected = 7 * (40_000 * views + 25_000) * FORWARD
    assert training_operations(taught) == pytest.approx(expected)


def test_a_study_costs_what_its_cells_cost_and_time_follows_from_speed() -> None:
    longer = replace(PROTOCOL, epochs=14)
    study = Study((Condition({"x": False}, PROTOCOL), Condition({"x": True}, longer)), num_seeds=5)
    cost = study_cost(study, "laptop")
    assert cost.num_cells == 10
    assert cost.operations == pytest.approx(15 * training_operations(PROTOCOL))
    assert cost.hours(cost.operations / 7200) == pytest.approx(2.0)
