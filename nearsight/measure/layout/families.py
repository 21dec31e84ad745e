"""The table of model families: from the class of a module to the layout of its attention.

A class is listed with the name of its package, so that another module with the same class name is
not mistaken for it. Subclasses count as their parents. If several modules around an attention call
are in the table, the innermost one decides. The table saves time: if a model is not in it and does
not declare its grid and prefix tokens, its layout is found by measuring the model (found.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from nearsight.core import UserError
from nearsight.measure.capture import AttentionCall, Place
from nearsight.measure.layout import pooled, windows
from nearsight.measure.layout.found import find_layout
from nearsight.measure.layout.tokens import (
    Given,
    Layout,
    Skipped,
    check_sizes,
    declares,
    global_layout,
    refuse,
)
from nearsight.models.layers import Grid
from nearsight.models.parts import PARTS

Family = Callable[[AttentionCall, Place, Given], Layout | Skipped]


def own_grids(layout: Callable[[AttentionCall, Place], Layout]) -> Family:
    """Make a family whose layers determine their own grids, which the user cannot set."""

    def family(call: AttentionCall, place: Place, given: Given) -> Layout:
        if given.grid is not None or given.num_prefix is not None:
            kind = type(place.module).__name__
            raise UserError(
                f"grid= and num_prefix= cannot be set for a model with {kind}, whose layers have "
                "grids of their own; leave them out"
            )
        return layout(call, place)

    return family


def with_prefix(num_prefix: int | Callable[[Place], int]) -> Family:
    """Make a family of attention between all tokens with a known number of prefix tokens."""

    def family(call: AttentionCall, place: Place, given: Given) -> Layout | Skipped:
        num = num_prefix if isinstance(num_prefix, int) else num_prefix(place)
        return global_layout(call, given, num)

    return family


def skip_layers(reason: str) -> Family:
    """Make a family whose layers are left out for this reason."""
    return lambda call, place, given: Skipped(reason)


def refuse_models(reason: str) -> Family:
    """Make a family whose models are refused for this reason."""
    return lambda call, place, given: refuse(call, reason)


def feature_map(call: AttentionCall, place: Place, given: Given) -> Layout | Skipped:
    """Locate tokens in a module that attends between all patches of its input [b, c, row, col]."""
    rows, cols = call.path[-1].inputs[0].shape[2:4]
    return global_layout(call, given, num_prefix=0, sizes=[(rows, cols)])


def naflex(call: AttentionCall, place: Place, given: Given) -> Layout | Skipped:
    """Locate tokens in timm's NaFlexViT, which must be given images instead of patches."""
    images = place.inputs[0]
    if getattr(images, "ndim", None) != 4:
        refuse(
            call,
            "NaFlex was given patches, whose grid may differ from image to image; give the model "
            "images [n, 3, height, width] of one size",
        )
    model: Any = place.module
    size = model.embeds.dynamic_feat_size(tuple(images.shape[2:4]))
    return global_layout(call, given, sizes=[size])


def _registers(place: Place) -> int:
    """Return the number of class and register tokens that a Hugging Face configuration states."""
    model: Any = place.module
    return 1 + model.config.num_register_tokens


def class_name(kind: type) -> str:
    """Return the full name of a class, as in ``FAMILIES``."""
    return f"{kind.__module__}.{kind.__qualname__}"


CHANNELS = "it attends between channels, not between patches"
ONE_QUERY = "it pools by learned queries, which are not patches"
CLASS_ATTENTION = "its only query is the class token (class attention)"
REFINEMENT = "it is patch refinement, which pools for the head and is not a layer"
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
    "timm.models.cait.TalkingHeadAttn": with_prefix(0),
    "timm.models.cait.ClassAttn": skip_layers(CLASS_ATTENTION),
    "timm.models.convit.GPSA": with_prefix(0),
    "timm.models.convit.MHSA": with_prefix(1),
    "timm.models.naflexvit.NaFlexVit": naflex,
    "timm.models.shvit.SHSA": feature_map,
    "timm.models.xcit.XCA": skip_layers(CHANNELS),
    "timm.models.davit.ChannelAttention": skip_layers(CHANNELS),
    "timm.models.davit.ChannelAttentionV2": skip_layers(CHANNELS),
    "timm.models.edgenext.CrossCovarianceAttn": skip_layers(CHANNELS),
    "timm.layers.attention_pool.AttentionPoolLatent": skip_layers(ONE_QUERY),
    "timm.layers.attention_pool.AttentionPoolPrr": skip_layers(REFINEMENT),
    "torchvision.models.vision_transformer.VisionTransformer": with_prefix(1),
    "torchvision.models.swin_transformer.ShiftedWindowAttention": own_grids(
        windows.torchvision_swin
    ),
}

HUGGING_FACE = {
    "vit.modeling_vit.ViTPreTrainedModel": with_prefix(1),
    "deit.modeling_deit.DeiTPreTrainedModel": with_prefix(2),
    "beit.modeling_beit.BeitPreTrainedModel": with_prefix(1),
    "dinov2.modeling_dinov2.Dinov2PreTrainedModel": with_prefix(1),
    "dinov2_with_registers.modeling_dinov2_with_registers.Dinov2WithRegistersPreTrainedModel": (
        with_prefix(_registers)
    ),
    "dinov3_vit.modeling_dinov3_vit.DINOv3ViTPreTrainedModel": with_prefix(_registers),
    "clip.modeling_clip.CLIPPreTrainedModel": with_prefix(1),
    "siglip.modeling_siglip.SiglipPreTrainedModel": with_prefix(0),
    "vit_mae.modeling_vit_mae.ViTMAEPreTrainedModel": refuse_models(SHUFFLED),
}
for part in PARTS.values():
    FAMILIES |= {class_name(kind): with_prefix(num) for kind, num in part.num_prefix.items()}
    FAMILIES |= {class_name(kind): skip_layers(reason) for kind, reason in part.skipped.items()}
FAMILIES |= {f"transformers.models.{name}": family for name, family in HUGGING_FACE.items()}


def layout_of(
    call: AttentionCall, grid: Grid | None = None, num_prefix: int | None = None
) -> Layout | Skipped:
    """Return where the tokens of an attention call are on the image.

    Args:
        call: The attention call.
        grid: The grid, if the user gives it.
        num_prefix: The number of prefix tokens, if the user gives it.

    Raises:
        UserError: If the positions are unknown, or do not agree with what the user gives. The
            message names the layer.
    """
    if call.sizes[-1] == 1:
        return Skipped("it attends to a single token, which has no distance to any other")
    given = Given(grid, num_prefix)
    for place in reversed(call.path):
        if family := family_of(type(place.module)):
            layout = family(call, place, given)
            break
    else:
        layout = unlisted_layout(call, given)
    return check_sizes(call, layout) if isinstance(layout, Layout) else layout


def unlisted_layout(call: AttentionCall, given: Given) -> Layout | Skipped:
    """Return where the tokens of a model are that is not in the table.

    What the user gives is used first; then what the model declares, if it agrees with the call.
    Otherwise the layout is found by measuring the model.
    """
    if given != Given():
        return global_layout(call, given)
    if declares(call):
        try:
            return global_layout(call, given)
        except UserError:
            pass  # the declared grid does not fit this call, which may attend within windows
    return find_layout(call)


def family_of(kind: type[nn.Module]) -> Family | None:
    """Return the entry of a class, or else of the nearest class that it inherits from."""
    for each in kind.__mro__:
        if family := FAMILIES.get(class_name(each)):
            return family
    return None
