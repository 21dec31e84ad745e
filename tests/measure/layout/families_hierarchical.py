"""Families of timm whose layers have grids of their own: windows, pooled keys and queries."""

from functools import partial

from measure.layout import reference_places as slow
from measure.layout.families_global import create_timm
from measure.layout.family_case import Case

SWIN = {"depths": (2, 2), "embed_dim": 12, "num_heads": (2, 3), "num_classes": 5}
SHIFTED = "windows, every second layer shifted up and left; put back on the grid of the stage"
SWIN_PADDED = "a map that is no multiple of the window is padded; padding has no place"
MAXVIT = {
    "img_size": (64, 96),
    "embed_dim": (12, 24),
    "depths": (1, 1),
    "block_type": ("M", "M"),
    "stem_width": 8,
    "transformer_dim_head": 6,
    "num_classes": 5,
}


def swin(rows, cols, window, stage=0, names="layers.{}.blocks.{}.attn"):
    """A layer with windows, a layer with shifted windows."""
    shift = (window[0] // 2, window[1] // 2)
    return {
        names.format(stage, 0): slow.rectangles(rows, cols, window),
        names.format(stage, 1): slow.rectangles(rows, cols, window, shift),
    }


def maxvit_places():
    places = {}
    for stage, (rows, cols) in enumerate([(16, 24), (8, 12)]):
        name = f"stages.{stage}.blocks.0.attn_"
        places[f"{name}block.attn"] = slow.rectangles(rows, cols, (2, 3))
        places[f"{name}grid.attn"] = slow.lattices(rows, cols, (2, 3))
    return places


def mvit_places(sizes, strides, num_prefix=0):
    """Two stages of two blocks: kernel 3, padding 1, queries halved at the start of the second."""
    places = {}
    for stage, (size, stride) in enumerate(zip(sizes, strides)):
        for block in range(2):
            halved = stage == 1 and block == 0
            first = sizes[0] if halved else size  # of the map that the layer gets
            step = 2 if halved else 1
            queries = [slow.covered(side, 3, step, 1) for side in first]
            keys = [slow.covered(side, 3, stride, 1) for side in first]
            places[f"stages.{stage}.blocks.{block}.attn"] = slow.pooled(
                queries, keys, (step, step), num_prefix
            )
    return places


def create_mvit(image_size, **options):
    from timm.models.mvitv2 import MultiScaleVit, MultiScaleVitCfg

    toy = {"depths": (2, 2), "embed_dim": (12, 24), "num_heads": (2, 3)}
    settings = MultiScaleVitCfg(stride_q=((1, 1), (2, 2)), **toy | options)
    return MultiScaleVit(settings, img_size=image_size, num_classes=5)


def pvt_places(key_sides):
    places = {}
    for stage, size in enumerate([(13, 19), (7, 10)]):
        queries = [list(range(side)) for side in size]
        for block in range(2):
            places[f"stages.{stage}.blocks.{block}.attn"] = slow.pooled(queries, key_sides[stage])
    return places


PVT = {
    "depths": (2, 2),
    "embed_dims": (12, 24),
    "num_heads": (2, 3),
    "sr_ratios": (4, 2),
    "mlp_ratios": (2, 2),
    "num_classes": 5,
}

CASES = [
    Case(
        "Swin",
        "timm/swin_tiny_patch4_window7_224",
        SHIFTED,
        build=partial(
            create_timm,
            "swin_tiny_patch4_window7_224",
            img_size=(52, 76),
            window_size=(3, 5),
            **SWIN,
        ),
        size=(52, 76),
        places=lambda: swin(13, 19, (3, 5)) | swin(7, 10, (3, 5), stage=1),
        notes=SWIN_PADDED,
        closed_form=True,
    ),
    Case(
        "Swin, other image sizes",
        "timm/swin_small_patch4_window7_224",
        SHIFTED,
        build=partial(
            create_timm,
            "swin_small_patch4_window7_224",
            img_size=(96, 128),
            window_size=5,
            strict_img_size=False,
            **SWIN,
        ),
        size=(56, 68),
        places=lambda: swin(14, 17, (5, 5)) | swin(7, 9, (5, 5), stage=1),
        notes="where timm's mask lets a padded map wrap around, the far side is measured as far",
    ),
    Case(
        "SwinV2",
        "timm/swinv2_tiny_window8_256",
        SHIFTED,
        build=partial(
            create_timm,
            "swinv2_tiny_window8_256",
            img_size=(48, 120),
            window_size=(3, 5),
            strict_img_size=False,
            **SWIN,
        ),
        size=(52, 76),
        places=lambda: swin(13, 19, (3, 5)) | swin(7, 10, (3, 5), stage=1),
        notes=SWIN_PADDED,
        closed_form=True,
    ),
    Case(
        "SwinV2-CR",
        "timm/swinv2_cr_tiny_224",
        SHIFTED,
        build=partial(
            create_timm,
            "swinv2_cr_tiny_224",
            img_size=(48, 120),
            window_size=(3, 5),
            **SWIN,
        ),
        size=(48, 120),
        places=lambda: {
            name.replace("layers", "stages"): at
            for name, at in (swin(12, 30, (3, 5)) | swin(6, 15, (3, 5), stage=1)).items()
        },
    ),
    Case(
        "MaxViT",
        "timm/maxvit_tiny_tf_224",
        "windows of neighbours, then windows spread evenly over the map",
        build=partial(create_timm, "maxvit_tiny_tf_224", **MAXVIT),
        size=(64, 96),
        places=maxvit_places,
    ),
    Case(
        "MaxViT, channels last",
        "timm/maxvit_rmlp_pico_rw_256",
        "windows of neighbours, then windows spread evenly over the map",
        build=partial(create_timm, "maxvit_rmlp_pico_rw_256", **MAXVIT),
        size=(64, 96),
        places=maxvit_places,
        closed_form=True,
    ),
    Case(
        "CoAtNet",
        "timm/coatnet_nano_rw_224",
        "patches row by row, in the stages with attention",
        build=partial(create_timm, "coatnet_nano_rw_224", **MAXVIT | {"block_type": ("C", "T")}),
        size=(64, 96),
        places=lambda: {"stages.1.blocks.0.attn": slow.whole(8, 12)},
    ),
    Case(
        "MViTv2",
        "timm/mvitv2_tiny",
        "queries on the grid of the layer, keys at the centres of their pooling kernels",
        build=partial(create_mvit, (52, 76), rel_pos_type=""),
        size=(52, 76),
        places=lambda: mvit_places([(13, 19), (7, 10)], [4, 2]),
        notes="kernel 3, padding 1: a cell sits on its middle patch",
        closed_form=True,
    ),
    Case(
        "MViTv2 with a class token",
        "timm/mvitv2_small_cls",
        "class token, then as MViTv2",
        build=partial(create_mvit, (48, 48), use_cls_token=True),
        size=(48, 48),
        places=lambda: mvit_places([(12, 12), (6, 6)], [4, 2], num_prefix=1),
        notes="timm's relative positions need square images",
    ),
    Case(
        "PVTv2",
        "timm/pvt_v2_b0",
        "queries on the grid of the stage, keys at the centres of their pooled cells",
        build=partial(create_timm, "pvt_v2_b0", **PVT),
        size=(52, 76),
        places=lambda: pvt_places(
            [
                [slow.covered(13, 4, 4, 0), slow.covered(19, 4, 4, 0)],
                [slow.covered(7, 2, 2, 0), slow.covered(10, 2, 2, 0)],
            ]
        ),
        notes="kernel = stride: a cell sits in the middle of its patches",
        closed_form=True,
    ),
    Case(
        "PVTv2, linear",
        "timm/pvt_v2_b2_li",
        "as PVTv2, with 7x7 cells of adaptive pooling",
        build=partial(create_timm, "pvt_v2_b2_li", **PVT),
        size=(52, 76),
        places=lambda: pvt_places(
            [[slow.adaptive(side, 7) for side in size] for size in [(13, 19), (7, 10)]]
        ),
    ),
    Case(
        "Hiera",
        "timm/hiera_tiny_224",
        "unrolled order, mask units, queries at the centre of the 2x2 they are pooled from",
        build=partial(
            create_timm,
            "hiera_tiny_224",
            img_size=(64, 96),
            embed_dim=12,
            num_heads=2,
            stages=(1, 2, 2, 2),
            num_classes=5,
        ),
        size=(64, 96),
        places=lambda: {
            "blocks.0.attn": slow.hiera(16, 24, 3, num_windows=6),
            "blocks.1.attn": slow.hiera(16, 24, 3, pooling=True, num_windows=6),
            "blocks.2.attn": slow.hiera(8, 12, 2, num_windows=6),
            "blocks.3.attn": slow.hiera(8, 12, 2, pooling=True, num_windows=6),
            "blocks.4.attn": slow.hiera(4, 6, 1),
            "blocks.5.attn": slow.hiera(4, 6, 1, pooling=True),
            "blocks.6.attn": slow.hiera(2, 3, 0),
        },
    ),
]
