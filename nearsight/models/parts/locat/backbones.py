"""Know the backbones to which LocAt can be added, and add GAug to their attention modules.

``install`` turns an attention module into its subclass with GAug. For a backbone that is not listed
here, an error gives the reason.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from nearsight.core import UserError
from nearsight.models.layers import Grid, TokenGrid
from nearsight.models.parts.locat.gaussian import Gaussian
from nearsight.models.parts.locat.gaussian_attention import (
    GaussianAttention,
    GaussianAttentionRope,
    GaussianEvaAttention,
    GaussianSelfAttention,
)
from nearsight.models.parts.locat.window_attention import (
    GaussianDavitAttention,
    GaussianGlobalAttention,
    GaussianNestAttention,
    GaussianTinyVitAttention,
    GaussianTwinsAttention,
    GaussianWindowAttention,
    window_of,
)
from nearsight.models.vit import VisionTransformer
from nearsight.protocol import GaussianSettings

SERVED = "timm's ViT, EVA, RoPE ViT, Swin, GCViT, DaViT, Twins, NesT and TinyViT"
GLOBAL = (
    GaussianSelfAttention, GaussianAttention, GaussianAttentionRope, GaussianEvaAttention,
)  # fmt: skip
IN_WINDOWS = (
    GaussianWindowAttention, GaussianGlobalAttention, GaussianDavitAttention,
    GaussianTwinsAttention, GaussianNestAttention, GaussianTinyVitAttention,
)  # fmt: skip
AUGMENTED: dict[type, type] = {kind.__bases__[-1]: kind for kind in (*GLOBAL, *IN_WINDOWS)}
WINDOWED = tuple(kind.__bases__[-1] for kind in IN_WINDOWS)
POOLED = "its queries attend to keys pooled from the whole map, and GAug is between patches"
NOT_SERVED = {  # classes of attention to which no bias between patches can be added
    "XCA": "it attends between channels",
    "ChannelAttention": "it attends between channels",
    "LiteMLA": "its attention is linear and has no logits",
    "LinearAttention": "its attention is linear and has no logits",
    "GlobalSubSampleAttn": POOLED,
}
# Blocks of GCViT and DaViT that have no attention between patches.
OTHER_BLOCKS = ("MbConvBlock", "FeatureBlock", "ChannelBlock")
UNCHANGED = ("GlobalSubSampleAttn",)  # attention of a listed backbone that stays without GAug


def is_windowed(model: nn.Module) -> bool:
    """Return whether a model is a backbone whose patches attend within windows."""
    from timm.models.davit import DaVit
    from timm.models.gcvit import GlobalContextVit
    from timm.models.nest import Nest
    from timm.models.swin_transformer import SwinTransformer
    from timm.models.tiny_vit import TinyVit
    from timm.models.twins import Twins

    kinds = SwinTransformer | GlobalContextVit | DaVit | Twins | Nest | TinyVit
    return isinstance(model, kinds) and bool(windowed_layers(model))


def windowed_layers(model: nn.Module) -> list[Any]:
    """Return the attention modules of a model with windows, the last stage last."""
    return [module for module in model.modules() if isinstance(module, WINDOWED)]


def token_grid(model: Any) -> TokenGrid:
    """Return where the tokens of a backbone are.

    Raises:
        UserError: If the model is not a backbone to which LocAt can be added.
    """
    from timm.models.eva import Eva
    from timm.models.vision_transformer import VisionTransformer as TimmViT

    if isinstance(model, VisionTransformer):
        return TokenGrid(model.grid, model.num_prefix)
    if is_windowed(model):
        return TokenGrid(window_of(windowed_layers(model)[0], model), 0)
    if not isinstance(model, TimmViT | Eva):
        raise UserError(
            f"LocAt can be added to {SERVED} and to nearsight's models, but not to "
            f"{type(model).__name__} of {type(model).__module__.split('.')[0]}: "
            f"{_reason_against(model)}"
        )
    if getattr(model.patch_drop, "prob", 0):
        raise UserError(
            "LocAt needs all patches in every layer, but the model has patch dropout "
            f"{model.patch_drop.prob}; build it with patch_drop_rate=0"
        )
    return TokenGrid(Grid(*model.patch_embed.grid_size), model.num_prefix_tokens)


def _reason_against(model: nn.Module) -> str:
    """Return why LocAt cannot be added to a model that is not a listed backbone."""
    kinds = [*dict.fromkeys(type(module) for module in model.modules())]
    if reason := next((x for kind in kinds if (x := NOT_SERVED.get(kind.__name__))), None):
        return reason
    for kind in kinds:
        if "attention" in kind.__name__.lower() and kind not in AUGMENTED:
            name = f"{kind.__module__}.{kind.__qualname__}"
            return f"GAug is written for each class of attention, and there is none for {name}"
    if any(kind in AUGMENTED for kind in kinds):
        return "how it arranges its tokens is not known to LocAt"
    return "it has no attention module that nearsight knows"


def attention_layers(model: Any) -> list[tuple[str, nn.Module]]:
    """Return the attention modules to which GAug can be added, with their names.

    Raises:
        UserError: If a block has none.
    """
    layers = [(name, x) for name, x in model.named_modules() if type(x) in AUGMENTED]
    kinds = {name: type(x).__name__ for name, x in model.named_modules()}
    known = [name for name, _ in layers] + [x for x, kind in kinds.items() if kind in UNCHANGED]
    blocks = [x for x, kind in kinds.items() if kind.endswith("Block") and kind not in OTHER_BLOCKS]
    for block in blocks:
        if not any(name.startswith(f"{block}.") for name in known):
            raise UserError(
                f"LocAt needs attention of {SERVED} in every block, but "
                f"{block} ({type(model.get_submodule(block)).__name__}) has its own kind; set "
                "gaussian=False to add only PRR"
            )
    return layers


def unchanged_note(model: nn.Module) -> tuple[str, ...]:
    """Return a remark about the layers of a backbone that stay as they are, if there are any."""
    num = sum(type(module).__name__ in UNCHANGED for module in model.modules())
    return (f"{num} layers that attend to the whole map stay as they are",) if num else ()


def install(
    layer: Any, tokens: TokenGrid, grid: Grid, settings: GaussianSettings, gentle: bool
) -> None:
    """Add GAug to an attention module of a class in AUGMENTED.

    Args:
        layer: The attention module.
        tokens: Where the tokens of the model are.
        grid: Rows and columns of the patches that attend to each other, a window or all.
        settings: Settings of GAug.
        gentle: See ``Gaussian.start``.
    """
    if grid.num_patches == 1:
        raise UserError(
            "GAug needs attention between at least 2 patches, but a window of this layer has 1 "
            "patch, so a bias changes nothing; choose larger windows"
        )
    weight = layer.proj.weight
    head_width = layer.proj.in_features // layer.num_heads
    gaug = Gaussian(head_width, grid, settings, layer.num_heads)
    gaug.start(gentle)
    layer.gaug = gaug.to(weight.device, weight.dtype).train(layer.training)
    layer.__class__ = AUGMENTED[type(layer)]
    if not isinstance(layer, WINDOWED):
        layer.tokens = tokens
