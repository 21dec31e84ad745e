"""List every table and figure of the three papers."""

from __future__ import annotations

from nearsight.study.papers.convit_items import CONVIT_ITEMS
from nearsight.study.papers.item import PaperItem
from nearsight.study.papers.locat_items import LOCAT_ITEMS
from nearsight.study.papers.protocol_items import PROTOCOL_ITEMS

ITEMS: tuple[PaperItem, ...] = (*PROTOCOL_ITEMS, *LOCAT_ITEMS, *CONVIT_ITEMS)


def items_of_study(name: str) -> list[PaperItem]:
    """Return the tables and figures that a study of this name is made for."""
    return [item for item in ITEMS if name in item.recipes]
