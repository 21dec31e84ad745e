"""The published LocAt models: timm's ViT, RoPE ViT and Swin with LocAt from the start.

They are named ``locatvit_*`` (RegViT with ``reg_tokens=4``), ``locatvit_*_rope_mixed``,
``locatswin_*`` and ``locatjumbo_*``, whose backbone is in jumbo.py. Weight names are the authors',
so that their weights load with ``strict=True``. The classes save to and load from the Hugging Face
hub. Where we differ: options of timm's classes are passed on, and ``gaussian`` and ``refine``
switch the parts of LocAt off or choose a variant.
"""

from __future__ import annotations

from typing import Any, ClassVar

from nearsight.models.compat import declare_missing_ops
from nearsight.models.parts.locat import from_scratch
from nearsight.models.zoo.jumbo import JumboViT
from nearsight.models.zoo.published import Published, check_heads

declare_missing_ops()

from timm.models.eva import Eva  # noqa: E402
from timm.models.swin_transformer import SwinTransformer  # noqa: E402
from timm.models.vision_transformer import VisionTransformer  # noqa: E402

ROPE: dict[str, Any] = {
    "attn_type": "rope",
    "init_values": 1e-5,
    "global_pool": "token",
    "use_abs_pos_emb": False,
    "use_rot_pos_emb": True,
    "rope_type": "mixed",
    "rope_grid_indexing": "xy",
    "rope_temperature": 10.0,
}


class WithLocat(Published):
    """A model of timm with LocAt from the start.

    Args:
        gaussian: Whether the model has GAug, or its settings.
        refine: Whether the model has PRR, or its settings.
        trained_size: Image size of the training, to whose grid GAug's widths refer. Give it if
            ``img_size`` is another one, for example to use weights for 224 pixels at 512 pixels.
        **options: Options of timm's class.
    """

    defaults: ClassVar[dict[str, Any]] = {}  # of timm's options

    def __init__(
        self,
        gaussian: bool | dict[str, Any] = True,
        refine: bool = True,
        trained_size: Any = None,
        **options: Any,
    ) -> None:
        options = self.defaults | options
        check_heads(options.get("embed_dim"), options.get("num_heads"))
        size = options.get("img_size")
        if trained_size is not None:
            options["img_size"] = trained_size
        super().__init__(**options)
        from_scratch(self, gaussian, refine)  # type: ignore[arg-type]
        if trained_size is not None and size is not None:
            self.set_input_size(size)

    def set_input_size(self, img_size: Any = None, *args: Any, **options: Any) -> None:
        """Change the image size as in timm; GAug's widths still refer to the previous grid."""
        model: Any = self
        before = model.patch_embed.img_size
        super().set_input_size(img_size, *args, **options)
        if img_size is not None:
            kept = self._kept_options()
            kept["trained_size"] = kept.get("trained_size") or before


class LocAtViT(WithLocat, VisionTransformer):
    """timm's ViT with LocAt."""


class LocAtRopeViT(WithLocat, Eva):
    """timm's ViT with mixed rotary positions and LocAt."""

    defaults = ROPE

    def __init__(self, *args: Any, reg_tokens: int = 0, **options: Any) -> None:
        super().__init__(*args, **{"num_reg_tokens": reg_tokens} | options)


class LocAtSwin(WithLocat, SwinTransformer):
    """timm's Swin with GAug inside each window and PRR over the last stage."""


class LocAtJumbo(WithLocat, JumboViT):
    """The Jumbo ViT with LocAt, or without."""
