"""The Jumbo ViT, with a wide class token that is cut into parts.

The paper is Fuller et al., "Thicker and Quicker" (arXiv 2502.15021).

K = 6 class tokens of width D attend as ordinary tokens. After each attention they are joined into
one token of width K*D, which has its own MLP, shared by all layers. The patches have an ordinary
MLP:

    x = x + scale1 * attention(norm1(x))                                    all K + N tokens
    patches = patches + scale2 * mlp(norm2(patches))
    jumbo = jumbo + scale3 * jumbo_mlp(norm3(jumbo))                        K*D wide, shared MLP

The head reads the class tokens, normalised as one vector. Its weights start at 0 and its biases at
-ln(classes), so that every class first gets the probability 1/classes. Class tokens have no
positional embedding.

With LocAt's refinement the patches get their own norm, and class tokens and patches are refined
together before the head. ``forward_features`` returns the patches before that norm.

As in the published weights, the shared MLP has a name in every block and one at the top, and all of
them are in the state dict. How the class tokens start is not published. Ours start from a normal
distribution of deviation 0.02, as the positions do, so that the K tokens differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.models.compat import declare_missing_ops
from nearsight.models.parts.locat import Refine, refine
from nearsight.models.zoo.published import check_heads

declare_missing_ops()
from timm.layers import DropPath, LayerScale, Mlp  # noqa: E402
from timm.models.vision_transformer import Block, VisionTransformer  # noqa: E402

FIXED = (  # options of timm's ViT that cannot be chosen, because this architecture fixes them
    "act_layer",
    "block_fn",
    "class_token",
    "fc_norm",
    "final_norm",
    "mlp_layer",
    "no_embed_class",
    "norm_layer",
    "pool_include_prefix",
    "reg_tokens",
    "weight_init",
)
POOLS = ("token", "")
WIDE_NORM_EPS = 1e-5  # of norm3, norm and norm_patches, as published; norm1 and norm2 have 1e-6


class JumboBlock(Block):
    """Attention over all tokens, then one MLP for the patches and one for the class tokens."""

    def __init__(
        self,
        dim: int,
        jumbo_mlp: nn.Module,
        num_class_tokens: int,
        init_values: float,
        drop_path: float,
        norm_layer: type[nn.Module],
        **options: Any,
    ) -> None:
        super().__init__(
            dim, init_values=init_values, drop_path=drop_path, norm_layer=norm_layer, **options
        )
        place = _place(options)
        self.num_class_tokens = num_class_tokens
        self.norm3 = nn.LayerNorm(num_class_tokens * dim, eps=WIDE_NORM_EPS, **place)
        self.ls3 = LayerScale(num_class_tokens * dim, init_values=init_values, **place)
        self.drop_path3 = DropPath(drop_path) if drop_path > 0 else nn.Identity()
        self.jumbo_mlp = jumbo_mlp

    def forward(
        self, x: Float[Tensor, "batch token width"], *mask: Any, **named_mask: Any
    ) -> Float[Tensor, "batch token width"]:
        """Apply attention, then one MLP to the class tokens and another to the patches."""
        x = x + self.drop_path1(self.ls1(self.attn(self.norm1(x), *mask, **named_mask)))
        jumbo, patches = _split(x, self.num_class_tokens)
        jumbo = jumbo + self.drop_path3(self.ls3(self.jumbo_mlp(self.norm3(jumbo))))
        patches = patches + self.drop_path2(self.ls2(self.mlp(self.norm2(patches))))
        return _join(jumbo, patches)


class JumboNorm(nn.LayerNorm):
    """The final norm, over all class tokens as one vector; patches pass unchanged."""

    def forward(self, x: Float[Tensor, "batch token width"]) -> Float[Tensor, "batch token width"]:
        """Normalise the class tokens as one vector."""
        jumbo, patches = _split(x, self.normalized_shape[0] // x.shape[-1])
        return _join(super().forward(jumbo), patches)


class RefineJumbo(Refine):
    """PRR whose head reads all class tokens."""

    def forward(self, x: Float[Tensor, "batch token width"]) -> Float[Tensor, "batch wide"]:
        """Refine the class tokens and concatenate them."""
        return refine(x, self.num_heads, num_queries=self.num_prefix).flatten(1)


class JumboViT(VisionTransformer):
    """timm's ViT with several class tokens, which have their own MLP.

    ``num_features`` is the width of a token, ``head_hidden_size`` that of all class tokens
    together.

    Args:
        embed_dim: Width of a token.
        num_heads: Number of heads.
        num_classes: Number of classes.
        num_class_tokens: Number of class tokens.
        jumbo_mlp_ratio: Width of the hidden layer of their MLP, relative to that of its input.
        init_values: Initial values of the layer scales.
        global_pool: "token" for all class tokens, "" for no pooling.
        **options: Options of timm's ``VisionTransformer``, except those in ``FIXED``.

    >>> model = JumboViT(img_size=32, embed_dim=6, depth=2, num_heads=2, num_classes=4)
    >>> model(torch.ones(1, 3, 32, 32)).softmax(-1)
    tensor([[0.2500, 0.2500, 0.2500, 0.2500]], grad_fn=<SoftmaxBackward0>)
    """

    attn_pool: Any
    blocks: Any
    global_pool: Any
    norm_patches: nn.Module

    def __init__(
        self,
        embed_dim: int = 768,
        num_heads: int = 12,
        num_classes: int = 1000,
        num_class_tokens: int = 6,
        jumbo_mlp_ratio: float = 4.0,
        init_values: float = 1e-4,
        global_pool: str = "token",
        **options: Any,
    ) -> None:
        _check(embed_dim, num_heads, num_class_tokens, options)
        place = _place(options)
        width = num_class_tokens * embed_dim
        dropout = options.get("proj_drop_rate", 0.0)
        jumbo_mlp = Mlp(width, int(width * jumbo_mlp_ratio), drop=dropout, **place)
        block: Any = partial(JumboBlock, jumbo_mlp=jumbo_mlp, num_class_tokens=num_class_tokens)
        super().__init__(
            embed_dim=embed_dim,
            num_heads=num_heads,
            num_classes=0,  # the head comes below
            reg_tokens=num_class_tokens - 1,  # timm then counts K prefix tokens
            no_embed_class=True,
            init_values=init_values,
            block_fn=block,
            weight_init="skip",
            **options,
        )
        self.num_class_tokens = num_class_tokens
        self.num_reg_tokens = 0
        self.head_hidden_size = width
        self.cls_token = nn.Parameter(torch.empty(1, num_class_tokens, embed_dim, **place))
        self.reg_token = None
        self.norm = JumboNorm(width, eps=WIDE_NORM_EPS, **place)
        self.reset_classifier(num_classes, global_pool)
        self.norm_patches = nn.Identity()  # until LocAt refines
        self.jumbo_mlp = jumbo_mlp  # last: the published order of names
        self.init_weights(needs_reset=False)

    def refine_modules(self) -> dict[str, nn.Module]:
        """Return the modules that ``add_locat`` sets on this model for PRR, by attribute."""
        like = self.norm.weight
        norm = nn.LayerNorm(self.embed_dim, eps=WIDE_NORM_EPS, device=like.device, dtype=like.dtype)
        pool = RefineJumbo(self.blocks[-1].attn.num_heads, num_prefix=self.num_class_tokens)
        return {"norm_patches": norm, "attn_pool": pool}

    def init_weights(self, mode: str = "", needs_reset: bool = True) -> None:
        """Initialise every module, the shared MLP only once."""
        if mode:
            raise UserError(
                f"mode is {mode!r}, but Jumbo has only its own initialisation; leave it out"
            )
        for token in (self.cls_token, self.pos_embed):
            if token is not None:
                nn.init.trunc_normal_(token, std=0.02)
        modules: Iterable[Any] = self.modules()
        for module in modules:
            if isinstance(module, nn.Linear) and module is not self.head:
                nn.init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif needs_reset and hasattr(module, "reset_parameters"):
                module.reset_parameters()
        _start_head(self.head)

    def reset_classifier(self, num_classes: int, global_pool: str | None = None) -> None:
        """Replace the head.

        Args:
            num_classes: Number of classes; 0 removes the head.
            global_pool: "token" for all class tokens, "" to return all tokens, None for no change.
        """
        if global_pool is not None:
            if global_pool not in POOLS:
                raise UserError(
                    f"global_pool is {global_pool!r}, but it must be 'token' (all class tokens) or "
                    "'' (no pooling)"
                )
            self.global_pool = global_pool
        self.num_classes = num_classes
        self.head = nn.Identity()
        if num_classes > 0:
            like = self.norm.weight
            self.head = nn.Linear(
                self.head_hidden_size, num_classes, device=like.device, dtype=like.dtype
            )
        self.head.train(self.training)
        _start_head(self.head)

    def pool(
        self, x: Float[Tensor, "batch token width"], pool_type: str | None = None
    ) -> Float[Tensor, "batch ..."]:
        """Return all class tokens as one vector, refined by PRR if the model has it."""
        if not (self.global_pool if pool_type is None else pool_type):
            return x
        jumbo, patches = _split(x, self.num_class_tokens)
        if self.attn_pool is None:
            return jumbo
        return self.attn_pool(_join(jumbo, self.norm_patches(patches)))


def _split(
    x: Float[Tensor, "batch token width"], num_class_tokens: int
) -> tuple[Float[Tensor, "batch wide"], Float[Tensor, "batch patch width"]]:
    """Return the class tokens as one vector, and the patches."""
    return x[:, :num_class_tokens].flatten(1), x[:, num_class_tokens:]


def _join(
    jumbo: Float[Tensor, "batch wide"], patches: Float[Tensor, "batch patch width"]
) -> Float[Tensor, "batch token width"]:
    """Undo ``_split``."""
    return torch.cat([jumbo.unflatten(1, (-1, patches.shape[-1])), patches], dim=1)


def _place(options: dict[str, Any]) -> dict[str, Any]:
    """Return the device and precision for weights, if the caller sets them."""
    return {key: options[key] for key in ("device", "dtype") if key in options}


def _start_head(head: nn.Module) -> None:
    """Set weight 0 and bias -ln(classes), so that every class gets 1/classes."""
    if isinstance(head, nn.Linear):
        nn.init.zeros_(head.weight)
        nn.init.constant_(head.bias, -math.log(head.out_features))


def _check(embed_dim: int, num_heads: int, num_class_tokens: int, options: dict[str, Any]) -> None:
    """Raise a UserError about options that are impossible, or that Jumbo does not take."""
    if num_class_tokens < 1:
        raise UserError(f"num_class_tokens is {num_class_tokens}, but it must be at least 1")
    check_heads(embed_dim, num_heads)
    fixed = [name for name in FIXED if name in options]
    if fixed:
        raise UserError(
            f"{fixed[0]} is {options[fixed[0]]!r}, but Jumbo does not allow a choice; leave it out"
        )
