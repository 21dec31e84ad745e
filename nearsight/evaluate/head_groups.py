"""Heads that are changed together: one alone, those of a layer, all of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Head = tuple[int, int]  # layer and head, counted from 0


@dataclass(frozen=True)
class HeadGroup:
    """Some heads and what they are called."""

    name: str  # "2.1": head 1 of layer 2, "layer 2", "all heads"; counted from 1
    heads: tuple[Head, ...]

    def by_name(self, layers: Sequence[str]) -> dict[str, list[int]]:
        """The numbers of the heads by the names of their layers."""
        found: dict[str, list[int]] = {}
        for layer, head in self.heads:
            found.setdefault(layers[layer], []).append(head)
        return found


def head_groups(
    num_heads: Sequence[int], heads: Sequence[Head] | None = None, left_out: Sequence[int] = ()
) -> list[HeadGroup]:
    """One group for each of ``heads``, of layers with ``num_heads`` heads.

    None: each head alone, those of each layer, and all together, but of the layers ``left_out``.

    >>> [group.name for group in head_groups([2, 1, 3], left_out=[2])]
    ['1.1', '1.2', '2.1', 'layer 1', 'layer 2', 'all heads']
    """
    if heads is not None:
        for layer, head in heads:
            if not (0 <= layer < len(num_heads) and 0 <= head < num_heads[layer]):
                raise ValueError(
                    "expected a head as LAYER.HEAD, counted from 1, of layers with "
                    f"{', '.join(map(str, num_heads))} heads, got {layer + 1}.{head + 1}"
                )
        return [_alone(head) for head in dict.fromkeys(heads)]
    layers = [layer for layer in range(len(num_heads)) if layer not in left_out]
    if not layers:
        raise ValueError("expected a layer whose patches have a say in the answer, found none")
    every = tuple((layer, head) for layer in layers for head in range(num_heads[layer]))
    together = [
        HeadGroup(f"layer {layer + 1}", tuple(head for head in every if head[0] == layer))
        for layer in layers
    ]
    return [*map(_alone, every), *together, HeadGroup("all heads", every)]


def _alone(head: Head) -> HeadGroup:
    return HeadGroup(f"{head[0] + 1}.{head[1] + 1}", (head,))
