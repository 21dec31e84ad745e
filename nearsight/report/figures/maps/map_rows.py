"""Arrange attention maps: a row per model, and a column per query or per head.

With one head, or the mean of all heads, the columns are [CLS] and the chosen patches. With every
head the columns are the heads, and each chosen patch of each model has a row of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nearsight.measure.maps import AttentionMap, TargetMaps
    from nearsight.measure.readouts import ShownShare

NO_CLASS = "no class token\ntakes part in\nthis layer"


@dataclass(frozen=True)
class MapColumn:
    """A column of the figure: its title, and the chosen patch whose mark stands beside it."""

    title: str
    patch: int | None = None


@dataclass(frozen=True)
class MapCell:
    """A map with its caption, or the reason why there is none."""

    found: AttentionMap | None
    caption: str = ""
    patch: int | None = None  # index of the chosen patch that is the query; None: the class token
    share: ShownShare | None = None  # of the head, shown as a strip above the map
    missing: str = ""


@dataclass(frozen=True)
class MapRow:
    """The maps of one model, or of one patch of it if the columns are heads."""

    target: TargetMaps
    words: str
    marked: tuple[int, ...]  # indices of the chosen patches to mark on the image
    cells: tuple[MapCell, ...]

    @property
    def share(self) -> ShownShare | None:
        """The first share among its maps; all of them have the same label."""
        return next((cell.share for cell in self.cells if cell.share is not None), None)


def arrange_maps(
    targets: Sequence[TargetMaps], every_head: bool
) -> tuple[list[MapColumn], list[MapRow]]:
    """Return the columns and the rows of the figure."""
    return _by_head(targets) if every_head else _by_query(targets)


def _by_query(targets: Sequence[TargetMaps]) -> tuple[list[MapColumn], list[MapRow]]:
    """Arrange maps by query: [CLS], if any model has one, then the chosen patches."""
    firsts = [target.maps[0] for target in targets]
    has_class = any(maps.of_class is not None for maps in firsts)
    num_patches = len(firsts[0].patches)
    columns = [MapColumn("[CLS]")] * has_class
    columns += [MapColumn(f"patch {index + 1}", index) for index in range(num_patches)]
    rows = []
    for target, maps in zip(targets, firsts):
        cells = []
        if has_class:
            missing = "" if maps.of_class is not None else NO_CLASS
            caption = _on_patches(maps.of_class) if maps.of_class is not None else ""
            cells.append(MapCell(maps.of_class, caption, share=maps.share, missing=missing))
        for index, found in enumerate(maps.of_patches):
            caption = f"{_place(target, index)} · {_on_patches(found)}"
            cells.append(MapCell(found, caption, index, maps.share))
        one = f"head {(maps.head or 0) + 1} of {maps.num_heads}"
        heads = one if maps.head is not None else f"mean of {maps.num_heads} heads"
        words = ", ".join([_where(target, heads), *_share_text(maps.share)])
        rows.append(MapRow(target, words, tuple(range(num_patches)), tuple(cells)))
    return columns, rows


def _by_head(targets: Sequence[TargetMaps]) -> tuple[list[MapColumn], list[MapRow]]:
    """Arrange maps by head; models with fewer heads have empty places."""
    num_heads = max(len(target.maps) for target in targets)
    rows = []
    for target in targets:
        heads = f"{len(target.maps)} heads"
        for index in range(len(target.maps[0].patches)):
            cells = []
            for maps in target.maps:
                found = maps.of_patches[index]
                parts = _share_text(maps.share)
                if maps.share is None or found.on_patches < 0.995:
                    parts.append(_on_patches(found))
                cells.append(MapCell(found, " · ".join(parts), index, maps.share))
            cells += [MapCell(None)] * (num_heads - len(cells))
            words = f"{_where(target, heads)}, from {_place(target, index)}"
            rows.append(MapRow(target, words, (index,), tuple(cells)))
    return [MapColumn(f"head {number}") for number in range(1, num_heads + 1)], rows


def _share_text(share: ShownShare | None) -> list[str]:
    return [] if share is None else [f"{share.name} {share.value:.2f}"]


def _where(target: TargetMaps, heads: str) -> str:
    maps = target.maps[0]
    return f"layer {maps.layer + 1} of {maps.num_layers}, {heads}, {maps.grid} patches"


def _place(target: TargetMaps, index: int) -> str:
    row, col = target.maps[0].patches[index]
    return f"row {row + 1}, column {col + 1}"


def _on_patches(found: AttentionMap) -> str:
    return f"{100 * found.on_patches:.0f} % on patches"
