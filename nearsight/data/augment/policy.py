"""Draw the operations and arguments of AutoAugment, RandAugment and ColorJitter for every sample.

Each function returns ``codes`` (int64) and ``arguments`` (float64), both [step, n] on the CPU. Each
row is for one call of ``operations.apply_operations``. The draws of a sample are a function of
(seed, epoch, sample, repeat).
"""

from __future__ import annotations

from functools import lru_cache

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from nearsight.data import draws
from nearsight.data.augment.operations import NOTHING, code
from nearsight.protocol import ColorJitter, RandAugment

# Cubuk et al. 2019, CIFAR-10, as in torchvision: twice (operation, probability, magnitude 0..9).
CIFAR10_POLICY = (
    (("invert", 0.1, 0), ("contrast", 0.2, 6)),
    (("rotate", 0.7, 2), ("translate_x", 0.3, 9)),
    (("sharpness", 0.8, 1), ("sharpness", 0.9, 3)),
    (("shear_y", 0.5, 8), ("translate_y", 0.7, 9)),
    (("autocontrast", 0.5, 0), ("equalize", 0.9, 0)),
    (("shear_y", 0.2, 7), ("posterize", 0.3, 7)),
    (("saturation", 0.4, 3), ("brightness", 0.6, 7)),
    (("sharpness", 0.3, 9), ("brightness", 0.7, 9)),
    (("equalize", 0.6, 0), ("equalize", 0.5, 0)),
    (("contrast", 0.6, 7), ("sharpness", 0.6, 5)),
    (("saturation", 0.7, 7), ("translate_x", 0.5, 8)),
    (("equalize", 0.3, 0), ("autocontrast", 0.4, 0)),
    (("translate_y", 0.4, 3), ("sharpness", 0.2, 6)),
    (("brightness", 0.9, 6), ("saturation", 0.2, 8)),
    (("solarize", 0.5, 2), ("invert", 0.0, 0)),
    (("equalize", 0.2, 0), ("autocontrast", 0.6, 0)),
    (("equalize", 0.2, 0), ("equalize", 0.6, 0)),
    (("saturation", 0.9, 9), ("equalize", 0.6, 0)),
    (("autocontrast", 0.8, 0), ("solarize", 0.2, 8)),
    (("brightness", 0.1, 3), ("saturation", 0.7, 0)),
    (("solarize", 0.4, 5), ("autocontrast", 0.9, 0)),
    (("translate_y", 0.9, 9), ("translate_y", 0.7, 9)),
    (("autocontrast", 0.9, 0), ("solarize", 0.8, 3)),
    (("equalize", 0.8, 0), ("invert", 0.1, 0)),
    (("translate_y", 0.7, 9), ("autocontrast", 0.9, 0)),
)
# The operations of timm's "rand-…-inc1", each equally likely.
RANDAUGMENT_NAMES = (
    "autocontrast",
    "equalize",
    "invert",
    "rotate",
    "posterize",
    "solarize",
    "solarize_add",
    "saturation",
    "contrast",
    "brightness",
    "sharpness",
    "shear_x",
    "shear_y",
    "translate_x",
    "translate_y",
)
# What the draws of a batch depend on: seed, epoch, samples [n], repeats [n], on the CPU.
SampleKey = tuple[int, int, Int64[Tensor, " n"], Int64[Tensor, " n"]]
Drawn = tuple[Int64[Tensor, "step n"], Float64[Tensor, "step n"]]  # codes and arguments

JITTER_NAMES = ("brightness", "contrast", "saturation", "hue")


def autoaugment_argument(name: str, magnitude: int, sign: int, height: int, width: int) -> float:
    """Return the argument that torchvision's AutoAugment gives to an operation.

    Args:
        name: The operation.
        magnitude: The strength in the policy, 0..9.
        sign: The direction of the change, -1 or 1.
        height: Height of the images.
        width: Width of the images.
    """

    def spaced(highest: float) -> float:
        return float(torch.linspace(0.0, highest, 10)[magnitude])

    match name:
        case "shear_x" | "shear_y":
            return sign * spaced(0.3)
        case "translate_x":
            return sign * float(int(spaced(150.0 / 331.0 * width)))
        case "translate_y":
            return sign * float(int(spaced(150.0 / 331.0 * height)))
        case "rotate":
            return sign * spaced(30.0)
        case "brightness" | "saturation" | "contrast" | "sharpness":
            return 1.0 + sign * spaced(0.9)
        case "posterize":
            return 8.0 - round(magnitude / (9 / 4))
        case "solarize":
            return float(torch.linspace(255.0, 0.0, 10)[magnitude])
        case _:
            return 0.0


@lru_cache
def _autoaugment_tables(
    height: int, width: int
) -> tuple[Int64[Tensor, "25 2"], Float64[Tensor, "25 2"], Float64[Tensor, "25 2 sign"]]:
    """Return codes, probabilities and arguments of every sub-policy, step and sign."""
    codes = [[code(name) for name, _, _ in pair] for pair in CIFAR10_POLICY]
    probabilities = [[probability for _, probability, _ in pair] for pair in CIFAR10_POLICY]
    arguments = [
        [
            [autoaugment_argument(name, magnitude, sign, height, width) for sign in (-1, 1)]
            for name, _, magnitude in pair
        ]
        for pair in CIFAR10_POLICY
    ]
    double = torch.float64
    return (
        torch.tensor(codes),
        torch.tensor(probabilities, dtype=double),
        torch.tensor(arguments, dtype=double),
    )


def draw_autoaugment(key: SampleKey, height: int, width: int) -> Drawn:
    """Draw one of the 25 sub-policies, and which of its two operations happen, with their signs."""
    codes, probabilities, arguments = _autoaugment_tables(height, width)
    numbers = draws.uniform("autoaugment", *key, num=5)
    chosen = (numbers[:, 0] * len(CIFAR10_POLICY)).long()
    happens = numbers[:, 1:3] < probabilities[chosen]  # [n, step]
    signs = (numbers[:, 3:5] * 2).long()
    signed = arguments[chosen].gather(2, signs[:, :, None])[:, :, 0]
    return torch.where(happens, codes[chosen], NOTHING).T, signed.T


def randaugment_arguments(
    name: str, level: Tensor, sign: Tensor, height: int, width: int
) -> Tensor:
    """Return the arguments that timm's RandAugment gives to an operation (its "inc1" variant).

    Args:
        name: The operation.
        level: The strength for each image, 0..1.
        sign: The direction of the change for each image, -1 or 1.
        height: Height of the images.
        width: Width of the images.
    """
    match name:
        case "rotate":
            return sign * level * 30
        case "posterize":
            return 4 - (level * 4).floor()
        case "solarize":
            return 256 - (level * 256).floor()
        case "solarize_add":
            return (level * 110).floor()
        case "saturation" | "contrast" | "brightness" | "sharpness":
            return 1 + sign * level * 0.9
        case "shear_x" | "shear_y":
            return sign * level * 0.3
        case "translate_x":
            return sign * level * 0.45 * width
        case "translate_y":
            return sign * level * 0.45 * height
        case _:
            return torch.zeros_like(level)


def draw_randaugment(settings: RandAugment, key: SampleKey, height: int, width: int) -> Drawn:
    """Draw ``num_ops`` operations with replacement, each with probability 0.5 as in timm."""
    numbers = draws.uniform("randaugment", *key, num=4 * settings.num_ops)
    choice, coin, normal, side = numbers.T.reshape(settings.num_ops, 4, -1).unbind(1)
    chosen = (choice * len(RANDAUGMENT_NAMES)).long()  # [step, n]
    magnitude = torch.full_like(normal, settings.magnitude)
    if settings.magnitude_std > 0:
        magnitude = magnitude + settings.magnitude_std * torch.special.ndtri(normal)
    level = magnitude.clamp(0, 10) / 10
    sign = torch.where(side < 0.5, -1.0, 1.0).double()
    per_name = [
        randaugment_arguments(name, level, sign, height, width) for name in RANDAUGMENT_NAMES
    ]
    arguments = torch.stack(per_name).gather(0, chosen[None])[0]
    codes = torch.tensor([code(name) for name in RANDAUGMENT_NAMES])[chosen]
    return torch.where(coin < 0.5, codes, NOTHING), arguments


def draw_colorjitter(settings: ColorJitter, key: SampleKey) -> Drawn:
    """Draw changes of brightness, contrast, saturation and hue, in random order.

    A change whose amount is 0 in the settings is left out.
    """
    numbers = draws.uniform("colorjitter", *key, num=9)
    happens = numbers[:, 8] < settings.probability
    order = numbers[:, :4].argsort(dim=1, stable=True).T  # [step, n]
    codes, arguments = [], []
    for name, number in zip(JITTER_NAMES, numbers[:, 4:8].T):
        amount = getattr(settings, name)
        low, high = (-amount, amount) if name == "hue" else (max(0.0, 1 - amount), 1 + amount)
        arguments.append(low + (high - low) * number)
        codes.append(code(name) if amount > 0 else NOTHING)
    chosen = torch.where(happens, torch.tensor(codes)[order], NOTHING)
    return chosen, torch.stack(arguments).gather(0, order)
