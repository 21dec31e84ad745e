"""The names of the published LocAt and ConViT models, and what each is built from."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

Family = Literal["vit", "rope", "swin", "jumbo", "convit", "deit"]


class Architecture(NamedTuple):
    """A named model: its family and the options for the family's class."""

    family: Family
    options: dict[str, Any]


def _vit(family: Family, width: int, heads: int, locat: bool = True) -> Architecture:
    parts = {} if locat else {"gaussian": False, "refine": False}
    return Architecture(family, {"embed_dim": width, "num_heads": heads} | parts)


def _plain(family: Family, width: int, heads: int) -> Architecture:
    return Architecture(family, {"embed_dim": width, "num_heads": heads})


def _swin(width: int, depths: tuple[int, ...], heads: tuple[int, ...]) -> Architecture:
    return Architecture("swin", {"embed_dim": width, "depths": depths, "num_heads": heads})


ARCHITECTURES = {
    "locatvit_tiny": _vit("vit", 192, 3),
    "locatvit_small": _vit("vit", 384, 6),
    "locatvit_base": _vit("vit", 768, 12),
    "locatvit_tiny_rope_mixed": _vit("rope", 192, 3),
    "locatvit_small_rope_mixed": _vit("rope", 384, 6),
    "locatvit_base_rope_mixed": _vit("rope", 768, 12),
    "locatswin_tiny": _swin(96, (2, 2, 6, 2), (3, 6, 12, 24)),
    "locatswin_small": _swin(96, (2, 2, 18, 2), (3, 6, 12, 24)),
    "locatswin_base": _swin(128, (2, 2, 18, 2), (4, 8, 16, 32)),
    "jumbo_tiny": _vit("jumbo", 192, 3, locat=False),
    "jumbo_small": _vit("jumbo", 384, 6, locat=False),
    "jumbo_base": _vit("jumbo", 768, 12, locat=False),
    "locatjumbo_tiny": _vit("jumbo", 192, 3),
    "locatjumbo_small": _vit("jumbo", 384, 6),
    "locatjumbo_base": _vit("jumbo", 768, 12),
    "convit_tiny": _plain("convit", 192, 4),
    "convit_small": _plain("convit", 432, 9),
    "convit_base": _plain("convit", 768, 16),
    "convit_tiny_plus": _plain("convit", 256, 4),
    "convit_small_plus": _plain("convit", 576, 9),
    "convit_base_plus": _plain("convit", 1024, 16),
    "deit_tiny": _plain("deit", 192, 3),
    "deit_small": _plain("deit", 384, 6),
    "deit_base": _plain("deit", 768, 12),
    "deit_tiny_plus": _plain("deit", 256, 4),
    "deit_small_plus": _plain("deit", 576, 9),
    "deit_base_plus": _plain("deit", 1024, 16),
}
TWINS = {  # timm's names of the same models, whose weights fit into ours
    **{f"convit_{size}": f"convit_{size}" for size in ("tiny", "small", "base")},
    **{f"deit_{size}": f"deit_{size}_patch16_224" for size in ("tiny", "small", "base")},
}


FAMILY_PARTS = {  # the part whose options the class of a family takes
    **dict.fromkeys(("vit", "rope", "swin", "jumbo"), "locat"),
    "convit": "gpsa",
}


def part_of(name: str) -> str | None:
    """Return the part whose options the model of this name accepts, if it is one of ours."""
    return FAMILY_PARTS.get(ARCHITECTURES[name].family) if name in ARCHITECTURES else None
