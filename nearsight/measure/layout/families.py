"""What is known of each family of models: the one table from a module's class to its layout.

A class is named with its package, so that a module of the same name elsewhere is not mistaken for
it; subclasses count. The innermost module of an attention call that is in the table decides. The
table saves time: a model that is neither in it nor declares its grid and prefix tokens itself is
measured to find its places (found.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from nearsight.core import UserError
from nearsight.measure.capture import AttentionCall, Place
from nearsight.measure.layout import pooled, windows
from nearsight.measure.layout.found import found_layout
from nearsight.measure.layout.tokens import (
    Given,
    Layout,
    Skipped,
    checked,
    declares,
    global_layout,
    refuse,
)
from nearsight.models.layers import Grid
from nearsight.models.parts import PARTS

Family = Callable[[AttentionCall, Place, Given], Layout | Skipped]


def own_grids(layout: Callable[[AttentionCall, Place], Layout]) -> Family:
    """A family whose layers say themselves where their tokens sit; the user cannot."""

    def family(call: AttentionCall, place: Place, given: Given) -> Layout:
        if given.grid is not None or given.num_prefix is not None:
            kind = type(place.module).__name__
            raise UserError(
                f"expected no grid= and no num_prefix= for a model with {kind}, "
                "whose layers have grids of their own; leave them out"
            )
        return layout(call, place)

    return family


def prefixed(num_prefix: int | Callable[[Place], int]) -> Family:
    """Attention between all tokens, with a known number of prefix tokens."""

    def family(call: AttentionCall, place: Place, given: Given) -> Layout | Skipped:
        num = num_prefix if isinstance(num_prefix, int) else num_prefix(place)
        return global_layout(call, given, num)

    return family


def skipped(reason: str) -> Family:
    return lambda call, place, given: Skipped(reason)


def refused(reason: str) -> Family:
    return lambda call, place, given: refuse(call, reason)


def feature_map(call: AttentionCall, place: Place, given: Given) -> Layout | Skipped:
    """Attention between all patches of the map [b, c, row, col] that the attention gets."""
    rows, cols = call.path[-1].inputs[0].shape[2:4]
    return global_layout(call, given, num_prefix=0, sizes=[(rows, cols)])


def naflex(call: AttentionCall, place: Place, given: Given) -> Layout | Skipped:
    """NaFlexViT of timm has a grid where it gets images, not patches cut beforehand."""
    images = place.inputs[0]
    if getattr(images, "ndim", None) != 4:
        refuse(
            call,
            "NaFlex patches cut beforehand have a grid per image; give the model images "
            "[n, 3, height, width] of one size",
        )
    model: Any = place.module
    size = model.embeds.dynamic_feat_size(tuple(images.shape[2:4]))
    return global_layout(call, given, sizes=[size])


def _registers(place: Place) -> int:
    model: Any = place.module
    return 1 + model.config.num_register_tokens


def class_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


CHANNELS = "it attends between channels, not between patches"
ONE_QUERY = "pooling by learned queries, which are no patches"
CLASS_ATTENTION = "class attention: the only query is the class token"
REFINEMENT = "patch refinement, which pools for the head and is no layer"
SHUFFLED = "it drops and shuffles patches at random"

FAMILIES: dict[str, Family] = {
    "timm.models.swin_transformer.SwinTransformerBlock": own_grids(windows.timm_swin),
    "timm.models.swin_transformer_v2.SwinTransformerV2Block": own_grids(windows.timm_swin),
    "timm.models.swin_transformer_v2_cr.SwinTransformerV2CrBlock": own_grids(windows.timm_swin),
    "timm.models.maxxvit.PartitionAttentionCl": own_grids(windows.maxvit_channels_last),
    "timm.models.maxxvit.ParallelPartitionAttention": own_grids(windows.maxvit_channels_last),
    "timm.models.maxxvit.PartitionAttention2d": own_grids(windows.maxvit_channels_first),
    "timm.models.maxxvit.TransformerBlock2d": feature_map,
    "timm.models.hiera.MaskUnitAttention": own_grids(windows.hiera),
    "timm.models.mvitv2.MultiScaleAttention": own_grids(pooled.mvit),
    "timm.models.mvitv2.MultiScaleAttentionPoolFirst": own_grids(pooled.mvit),
    "timm.models.pvt_v2.Attention": own_grids(pooled.pvt),
    "timm.models.cait.TalkingHeadAttn": prefixed(0),
    "timm.models.cait.ClassAttn": skipped(CLASS_ATTENTION),
    "timm.models.convit.GPSA": prefixed(0),
    "timm.models.convit.MHSA": prefixed(1),
    "timm.models.naflexvit.NaFlexVit": naflex,
    "timm.models.shvit.SHSA": feature_map,
    "timm.models.xcit.XCA": skipped(CHANNELS),
    "timm.models.davit.ChannelAttention": skipped(CHANNELS),
    "timm.models.davit.ChannelAttentionV2": skipped(CHANNELS),
    "timm.models.edgenext.CrossCovarianceAttn": skipped(CHANNELS),
    "timm.layers.attention_pool.AttentionPoolLatent": skipped(ONE_QUERY),
    "timm.layers.attention_pool.AttentionPoolPrr": skipped(REFINEMENT),
    "torchvision.models.vision_transformer.VisionTransformer": prefixed(1),
    "torchvision.models.swin_transformer.ShiftedWindowAttention": own_grids(
        windows.torchvision_swin
    ),
}

HUGGING_FACE = {
    "vit.modeling_vit.ViTPreTrainedModel": prefixed(1),
    "deit.modeling_deit.DeiTPreTrainedModel": prefixed(2),
    "beit.modeling_beit.BeitPreTrainedModel": prefixed(1),
    "dinov2.modeling_dinov2.Dinov2PreTrainedModel": prefixed(1),
    "dinov2_with_registers.modeling_dinov2_with_registers.Dinov2WithRegistersPreTrainedModel": (
        prefixed(_registers)
    ),
    "dinov3_vit.modeling_dinov3_vit.DINOv3ViTPreTrainedModel": prefixed(_registers),
    "clip.modeling_clip.CLIPPreTrainedModel": prefixed(1),
    "siglip.modeling_siglip.SiglipPreTrainedModel": prefixed(0),
    "vit_mae.modeling_vit_mae.ViTMAEPreTrainedModel": refused(SHUFFLED),
}
for part in PARTS.values():
    FAMILIES |= {class_name(kind): prefixed(num) for kind, num in part.num_prefix.items()}
    FAMILIES |= {class_name(kind): skipped(reason) for kind, reason in part.skipped.items()}
FAMILIES |= {f"transformers.models.{name}": family for name, family in HUGGING_FACE.items()}


def layout_of(
    call: AttentionCall, grid: Grid | None = None, num_prefix: int | None = None
) -> Layout | Skipped:
    """Where the tokens of this call sit; ``grid`` and ``num_prefix`` are what the user says.

    A UserError names the layer and the reason where that is not known, or not as the user says.
    """
    if call.sizes[-1] == 1:
        return Skipped("it attends to 1 token only, which has no distance to any other")
    given = Given(grid, num_prefix)
    for place in reversed(call.path):
        if family := family_of(type(place.module)):
            found = family(call, place, given)
            break
    else:
        found = unlisted_layout(call, given)
    return checked(call, found) if isinstance(found, Layout) else found


def unlisted_layout(call: AttentionCall, given: Given) -> Layout | Skipped:
    """Where the tokens sit in a model that the table does not know.

    As the user says; or as a model of a known library declares, if that fits; or as measured.
    """
    if given != Given():
        return global_layout(call, given)
    if declares(call):
        try:
            return global_layout(call, given)
        except UserError:
            pass  # not a ViT with prefix tokens and patches in rows
    return found_layout(call)


def family_of(kind: type[nn.Module]) -> Family | None:
    """What the table knows of a class or the classes it comes from."""
    for each in kind.__mro__:
        if family := FAMILIES.get(class_name(each)):
            return family
    return None
