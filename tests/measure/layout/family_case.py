"""One supported family: what the docs say of it, a toy of it, and where the toy's tokens sit."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from measure.layout.own_weights import softmax_rows
from torch import nn

from nearsight.models.zoo.names import ARCHITECTURES
from nearsight.models.zoo.own import model_names


@dataclass(frozen=True)
class Case:
    """``places`` names the measured layers of the toy in order, each with its places by loops."""

    family: str
    example: str  # a name that the command line takes
    sits: str
    build: Callable[[], nn.Module]
    size: tuple[int, int]  # of the toy's images
    places: Callable[[], dict]
    skipped: tuple[str, ...] = ()
    notes: str = ""
    weights: Callable = softmax_rows
    precision: torch.dtype = torch.float64
    closed_form: bool = False  # a positional layer is tested as well

    def __str__(self):
        return f"{self.library}: {self.family}"

    @property
    def library(self):
        if self.example in (*model_names(), *ARCHITECTURES) or self.example.startswith("add_"):
            return "nearsight"
        known = {"timm": "timm", "torchvision": "torchvision", "hf": "Hugging Face"}
        return known.get(self.example.partition("/")[0], "torch")

    def model(self):
        """The toy, with random weights large enough to make attention uneven."""
        torch.manual_seed(11)
        model = self.build().eval().to(self.precision)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim > 1:
                    parameter.normal_(std=0.2)
        return model

    def images(self):
        generator = torch.Generator().manual_seed(13)
        return torch.randn(2, 3, *self.size, generator=generator, dtype=self.precision)


def layers(pattern, places, depth=2):
    """The same places in ``depth`` layers whose names count from 0."""
    return {pattern.format(i): places for i in range(depth)}
