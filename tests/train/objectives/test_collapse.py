"""Signs of a collapse, solved by hand."""

from __future__ import annotations

import math

import pytest
import torch

from nearsight.train.objectives.collapse import CollapseSigns, collapse_signs


def test_two_groups_of_images_give_log_2_nats_and_a_hand_solved_variance():
    outputs = torch.tensor([[50.0, 0, 0, 0]] * 3 + [[0, 50.0, 0, 0]] * 3)
    features = torch.tensor([[2.0, 0]] * 3 + [[0, 5.0]] * 3)
    signs = collapse_signs(outputs, 1.0, features)
    assert signs.teacher_information == pytest.approx(math.log(2))
    assert signs.teacher_entropy == pytest.approx(0.0, abs=1e-9)
    assert signs.feature_variance == pytest.approx(0.5)
    assert signs.warning() is None


def test_one_output_for_all_images_is_a_collapse():
    signs = collapse_signs(torch.tensor([[50.0, 0, 0]] * 5), 1.0, torch.eye(5))
    assert signs.teacher_entropy == pytest.approx(0.0, abs=1e-9)
    assert "nearly all probability to the same outputs" in str(signs.warning())


def test_uniform_outputs_are_a_collapse():
    signs = collapse_signs(torch.zeros(5, 7), 0.04, torch.eye(5))
    assert signs.teacher_entropy == pytest.approx(1.0)
    assert "about the same probability" in str(signs.warning())


def test_features_that_all_point_the_same_way_are_a_collapse():
    signs = CollapseSigns(teacher_entropy=0.5, teacher_information=1.0, feature_variance=1e-6)
    assert "point the same way" in str(signs.warning())
