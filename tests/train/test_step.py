"""Loss, schedule, order, shares, moving average: numbers solved by hand or by a loop."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from nearsight.core import UserError
from nearsight.core.processes import World, find_device
from nearsight.data.augment.mix import mixed_targets
from nearsight.train.batches import epoch_order
from nearsight.train.objectives.labels import soft_cross_entropy
from nearsight.train.optim import MovingAverage


def test_without_smoothing_and_mixing_the_loss_is_plain_cross_entropy():
    logits, labels = torch.randn(13, 7, dtype=torch.float64), torch.arange(13) % 7
    ours = soft_cross_entropy(logits, mixed_targets(labels, labels, None, 7, 0.0))
    torch.testing.assert_close(ours, F.cross_entropy(logits, labels, reduction="none"))


def test_smoothing_is_torchs_smoothing():
    logits, labels = torch.randn(13, 7), torch.arange(13) % 7
    ours = soft_cross_entropy(logits, mixed_targets(labels, labels, None, 7, 0.1))
    theirs = F.cross_entropy(logits, labels, reduction="none", label_smoothing=0.1)
    torch.testing.assert_close(ours, theirs)


def test_half_precision_logits_give_a_float32_loss():
    assert soft_cross_entropy(torch.randn(3, 5).bfloat16(), torch.eye(5)[:3]).dtype == torch.float32


def test_an_epoch_visits_every_sample_once_in_another_order_each_epoch():
    indices = torch.tensor([3, 5, 7, 11, 13, 17, 19])
    first, repeats = epoch_order(indices, 1, seed=0, epoch=1)
    second, _ = epoch_order(indices, 1, seed=0, epoch=2)
    assert sorted(first.tolist()) == indices.tolist()
    assert first.tolist() != second.tolist()
    assert repeats.tolist() == [0] * 7


def test_repeats_follow_each_other_and_keep_the_epochs_length():
    indices = torch.arange(7) + 100
    order, repeats = epoch_order(indices, 3, seed=0, epoch=1)
    once, _ = epoch_order(indices, 1, seed=0, epoch=1)
    assert order.tolist() == [once[0]] * 3 + [once[1]] * 3 + [once[2]]
    assert repeats.tolist() == [0, 1, 2, 0, 1, 2, 0]


@pytest.mark.parametrize(("num", "size"), [(29, 3), (1, 2), (0, 5), (7, 7)])
def test_the_shares_of_all_processes_are_the_whole_batch_in_order(num: int, size: int):
    device = torch.device("cpu")
    shares = [list(range(num))[World(device, rank, size).share(num)] for rank in range(size)]
    assert [sample for share in shares for sample in share] == list(range(num))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_the_moving_average_is_the_recursion_and_gives_the_weights_back():
    model = nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, 2.0]]))
    average = MovingAverage(model, decay=0.9)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[3.0, 6.0]]))
    average.update(model, step=1)  # decay is min(0.9, 2/11)
    expected = [1 * 2 / 11 + 3 * 9 / 11, 2 * 2 / 11 + 6 * 9 / 11]
    with average.swap_in(model):
        assert model.weight.tolist()[0] == pytest.approx(expected)
    assert model.weight.tolist() == [[3.0, 6.0]]
    average.update(model, step=10_000)
    assert math.isclose(average.weights["weight"][0, 0], 0.9 * expected[0] + 0.1 * 3, rel_tol=1e-6)


@pytest.mark.parametrize("name", ["gpu", "cuda:99", "xpu"])
def test_a_device_that_is_not_there_is_refused_by_name(name: str):
    with pytest.raises(UserError, match=f"device.*{name}|{name}.*device"):
        find_device(name)
