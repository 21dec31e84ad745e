"""Scores over a split: against loops, with fewer classes than five, in shares of processes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from nearsight.core.processes import World
from nearsight.data.input.transform import InputTransform
from nearsight.evaluate.accuracy import model_scores


class Looked(nn.Module):
    """Logits by the first pixel of an image, which is its number."""

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__()
        self.logits = logits

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        assert not self.training
        return self.logits[(images[:, 0, 0, 0] * 255).round().long()]


@pytest.mark.parametrize("num_classes", [3, 11])
def test_scores_are_those_of_a_loop_over_images(num_classes: int):
    torch.manual_seed(0)
    num = 23
    logits, labels = torch.randn(num, num_classes), torch.randint(num_classes, (num,))
    images = np.zeros((num, 3, 2, 2), np.uint8)
    images[:, 0, 0, 0] = np.arange(num)
    chosen = torch.tensor([20, 3, 5, 7, 11, 0, 1, 2, 19])
    plain = InputTransform((0.0, 0.0, 0.0), (1.0, 1.0, 1.0), (2, 2), torch.float32)
    model = Looked(logits).train()
    scores = model_scores(model, images, labels, chosen, plain, World(torch.device("cpu")))
    right = near = loss = 0.0
    for index in chosen.tolist():
        order = sorted(range(num_classes), key=lambda c: -logits[index, c].item())
        right += order[0] == labels[index]
        near += labels[index].item() in order[:5]
        loss -= logits[index].log_softmax(-1)[labels[index]].item()
    assert scores.accuracy == right / 9
    assert scores.top5_accuracy == near / 9
    assert scores.loss == pytest.approx(loss / 9, rel=1e-5)
    assert model.training
    assert 0 < right < near <= 9
