"""The loss, the head and the teacher of DINO against plain loops."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from nearsight.protocol.schema import Dino
from nearsight.train.objectives.projection import (
    Branch,
    MomentumTeacher,
    ProjectionHead,
    dino_loss,
)

SETTINGS = Dino(head_layers=3, hidden=7, bottleneck=5, outputs=11)


def softmax(row: list[float]) -> list[float]:
    top = max(row)
    powers = [math.exp(x - top) for x in row]
    return [x / sum(powers) for x in powers]


@pytest.mark.parametrize("num_views", [2, 5])
def test_the_loss_is_that_of_a_plain_loop(num_views: int):
    student = torch.randn(num_views, 3, 7, dtype=torch.float64) * 0.3
    teacher, centre = torch.randn(2, 3, 7, dtype=torch.float64) * 0.3, torch.randn(7).double() * 0.1
    found = dino_loss(student, teacher, centre, 0.1, 0.04)
    for image in range(3):
        total, pairs = 0.0, 0
        for i in range(2):
            wanted = softmax([(t - c) / 0.04 for t, c in zip(teacher[i, image], centre)])
            for j in range(num_views):
                if i == j:
                    continue
                predicted = softmax([s / 0.1 for s in student[j, image].tolist()])
                total -= sum(q * math.log(p) for q, p in zip(wanted, predicted))
                pairs += 1
        assert found[image].item() == pytest.approx(total / pairs, rel=1e-12)


def test_the_teacher_gets_no_gradient_through_the_loss_of_a_student():
    student = torch.randn(3, 2, 5, requires_grad=True)
    dino_loss(student, torch.randn(2, 2, 5), torch.zeros(5), 0.1, 0.04).sum().backward()
    assert student.grad is not None
    assert (student.grad.abs().sum((1, 2)) > 0).all()


def test_outputs_are_cosines_with_rows_of_length_one():
    head = ProjectionHead(13, SETTINGS)
    features = torch.randn(3, 13)
    x = features
    for layer in head.mlp:
        x = layer(x)
    for i in range(3):
        for k in range(11):
            row = head.last.weight[k]
            cosine = torch.dot(x[i], row) / x[i].norm() / row.norm()
            assert head(features)[i, k].item() == pytest.approx(cosine.item(), abs=1e-6)
    assert [type(layer).__name__ for layer in head.mlp] == ["Linear", "GELU"] * 2 + ["Linear"]


def test_the_teacher_follows_by_its_recursion_with_buffers():
    backbone = nn.BatchNorm1d(13)
    student = Branch(backbone, ProjectionHead(13, SETTINGS))
    teacher = MomentumTeacher(student)
    expected = {name: x.double().clone() for name, x in teacher.branch.state_dict().items()}
    for momentum in (0.9, 0.5, 1.0):
        with torch.no_grad():
            for x in student.parameters():
                x.add_(torch.randn_like(x))
        backbone(torch.randn(7, 13))  # moves its running statistics
        teacher.follow(student, momentum)
        for name, x in student.state_dict().items():
            old = expected[name]
            mixed = momentum * old + (1 - momentum) * x.double()
            expected[name] = mixed if x.is_floating_point() else x.double()
    for name, x in teacher.branch.state_dict().items():
        torch.testing.assert_close(x.double(), expected[name], atol=1e-5, rtol=1e-5)
    assert not teacher.branch.training
    assert not any(x.requires_grad for x in teacher.parameters())


def test_the_centre_is_the_recursion():
    teacher = MomentumTeacher(Branch(nn.Identity(), ProjectionHead(13, SETTINGS)))
    means = torch.randn(4, 11)
    expected = [0.0] * 11
    for mean in means:
        teacher.move_centre(mean, 0.9)
        expected = [0.9 * old + 0.1 * new for old, new in zip(expected, mean.tolist())]
    assert teacher.centre.tolist() == pytest.approx(expected, abs=1e-6)
