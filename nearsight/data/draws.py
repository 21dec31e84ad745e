"""Draw random numbers as a pure function of where they are used.

``uniform("crop", seed, epoch, samples, repeats, num=2)`` returns the same numbers in any order, on
any device, in any number of processes and with any version of torch, because every number is a hash
of its key. A run can therefore resume without storing a random state, and a process can recompute
what another process drew.

The hash chains the finaliser of splitmix64 (Steele, Lea & Flood 2014) over the parts of the key.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

Key = str | int | Tensor

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as int64
_FIRST = -4658895280553007687  # 0xBF58476D1CE4E5B9
_SECOND = -7723592293110705685  # 0x94D049BB133111EB


def _shift_right(x: Tensor, by: int) -> Tensor:
    """Shift int64 to the right and fill with zeros, as for unsigned numbers."""
    return (x >> by) & ((1 << (64 - by)) - 1)


def _mix(x: Tensor) -> Tensor:
    """Apply the finaliser of splitmix64."""
    x = (x ^ _shift_right(x, 30)) * _FIRST
    x = (x ^ _shift_right(x, 27)) * _SECOND
    return x ^ _shift_right(x, 31)


def bits(*key: Key, num: int) -> Tensor:
    """Return random int64 numbers of shape [*key shape, num], which are hashes of the key.

    Args:
        key: Texts, numbers and tensors of whole numbers. Tensors broadcast against each other, and
            their shape is the key shape.
        num: How many numbers to return per key.
    """
    tensors = [part for part in key if isinstance(part, Tensor)]
    device = tensors[0].device if tensors else torch.device("cpu")
    state = torch.zeros((), dtype=torch.int64, device=device)
    for part in key:
        number = zlib.crc32(part.encode()) if isinstance(part, str) else part
        state = _mix(state + _GOLDEN + number)
    counter = torch.arange(1, num + 1, device=device)
    return _mix(state[..., None] + counter * _GOLDEN)


def uniform(*key: Key, num: int) -> Tensor:
    """Return uniform float64 numbers in [0, 1) of shape [*key shape, num].

    ``bits`` describes the arguments.

    >>> bool((uniform("demo", 0, num=3) == uniform("demo", 0, num=5)[:3]).all())
    True
    """
    return _shift_right(bits(*key, num=num), 11).double() * 2.0**-53


def integers(*key: Key, num: int, high: int) -> Tensor:
    """Return whole numbers 0 <= x < ``high`` as int64 of shape [*key shape, num]."""
    return (uniform(*key, num=num) * high).long()


@contextmanager
def seeded_torch(*key: str | int, device: torch.device) -> Iterator[None]:
    """Seed torch inside the block, so that what a model draws is a function of the key.

    Torch's random state on the CPU and on ``device`` is restored after the block.
    """
    on_gpu = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=on_gpu):
        torch.manual_seed(int(bits(*key, num=1)))
        yield


def permutation(*key: str | int, length: int) -> Tensor:
    """Return the numbers 0 to ``length`` - 1 in a random order, as int64."""
    return torch.argsort(bits(*key, num=length), stable=True)


def sample(*key: str | int, length: int, num: int) -> Tensor:
    """Return ``num`` different whole numbers below ``length``, sorted.

    With the same key a larger sample contains every smaller one.

    >>> sample("demo", 0, length=5, num=5).tolist()
    [0, 1, 2, 3, 4]
    """
    return permutation(*key, length=length)[:num].sort().values
