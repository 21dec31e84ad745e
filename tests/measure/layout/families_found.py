"""Families whose places no table lists: they are measured on the model, and checked by loops."""

import importlib
import itertools
from dataclasses import replace
from functools import partial

from measure.layout import reference_places as slow
from measure.layout.families_global import create_timm
from measure.layout.families_libraries import hugging_face
from measure.layout.family_case import Case
from measure.layout.own_weights import softmax_rows
from torch import nn

WINDOWS = "windows of neighbours"
PADDED = "a map that is no multiple of the window is padded; padding has no place"


def windows_first(model, images):
    """Rows [image, window, head, query, key] with the windows folded into the images."""
    return [x.flatten(0, 1) if x.ndim == 5 else x for x in softmax_rows(model, images)]


def heads_first(model, images):
    """Rows [image x head, window, query, key] as [image x window, head, query, key]."""
    found = softmax_rows(model, images)
    return [x.unflatten(0, (len(images), -1)).transpose(1, 2).flatten(0, 1) for x in found]


def built(name, **options):
    """A model of timm from its class, as ``create_model`` fixes some options of it."""
    module, _, kind = name.partition(".")
    home = importlib.import_module(f"timm.models.{module}")
    return getattr(home, kind)(num_classes=5, **options)


def inner(places):
    return replace(places, inner=True)


def pooled(size, ratio):
    """Keys at the centres of ``ratio`` x ``ratio`` patches; what is left over has no key."""
    sides = [list(range(side)) for side in size]
    return slow.pooled(sides, [slow.covered(side, ratio, ratio, 0) for side in size])


def halos(rows, cols, block, halo):
    """Blocks of queries, whose keys are the block and ``halo`` patches around it."""
    queries, keys = [], []
    for down, right in itertools.product(range(0, rows, block), range(0, cols, block)):
        inside = itertools.product(range(block), range(block))
        queries.append([(down + y, right + x) for y, x in inside])
        around = itertools.product(range(-halo, block + halo), range(-halo, block + halo))
        at = [(down + y, right + x) for y, x in around]
        keys.append([x if 0 <= x[0] < rows and 0 <= x[1] < cols else None for x in at])
    return slow.Places(rows, cols, queries, keys)


class HaloToy(nn.Module):
    """6x9 patches and timm's halo attention, after a 3x3 convolution."""

    def __init__(self):
        super().__init__()
        from timm.layers.halo_attn import HaloAttn

        self.patches = nn.Conv2d(3, 48, 4, stride=4)
        self.local = nn.Conv2d(48, 48, 3, padding=1)
        self.attn = HaloAttn(48, num_heads=2, block_size=3, halo_size=2)

    def forward(self, images):
        x = self.local(self.patches(images))
        return (x + self.attn(x)).mean((2, 3))


def mobilevit_places():
    """A window for each of the 2x2 cells of a patch: spread evenly over the map."""
    places, depths = {}, {2: (2, 8, 16), 3: (4, 4, 8), 4: (3, 2, 4)}
    for stage, (depth, rows, cols) in depths.items():
        at = slow.lattices(rows, cols, (rows // 2, cols // 2))
        for block in range(depth):
            places[f"stages.{stage}.1.transformer.{block}.attn"] = at
    return places


def tnt_places():
    """4x4 pixel tokens inside each of 2x3 patches, then the patches after a class token."""
    places = {}
    for block in range(2):
        places[f"blocks.{block}.attn_in"] = slow.rectangles(8, 12, (4, 4))
        places[f"blocks.{block}.attn_out"] = slow.whole(2, 3, 1)
    return places


def sam2_places():
    """Windows of 4x4; queries pooled by 2 inside them; then windows of 2x2, then all patches."""
    whole = slow.rectangles(16, 24, (4, 4))
    keys = [[((y - 0.5) / 2, (x - 0.5) / 2) for y, x in tokens] for tokens in whole.keys]
    queries = slow.rectangles(8, 12, (2, 2))
    return {
        "blocks.0.attn": whole,
        "blocks.1.attn": slow.Places(8, 12, queries.queries, keys),
        "blocks.2.attn": queries,
        "blocks.3.attn": slow.whole(8, 12),
    }


CASES = [
    Case(
        "Twins-SVT",
        "timm/twins_svt_small",
        f"{WINDOWS}, then keys pooled from the whole map",
        build=partial(
            built,
            "twins.Twins",
            img_size=(40, 56),
            depths=(2, 2),
            embed_dims=(32, 48),
            num_heads=(2, 3),
            mlp_ratios=(2, 2),
            sr_ratios=(4, 2),
            wss=(4, 3),
        ),
        size=(40, 56),
        places=lambda: {
            "blocks.0.0.attn": slow.rectangles(10, 14, (4, 4)),
            "blocks.0.1.attn": pooled((10, 14), 4),
            "blocks.1.0.attn": slow.rectangles(5, 7, (3, 3)),
            "blocks.1.1.attn": pooled((5, 7), 2),
        },
        weights=windows_first,
        notes=PADDED,
    ),
    Case(
        "DaViT",
        "timm/davit_tiny",
        WINDOWS,
        build=partial(
            built,
            "davit.DaVit",
            depths=(1, 1),
            embed_dims=(32, 48),
            num_heads=(2, 3),
            window_size=4,
        ),
        size=(36, 52),
        places=lambda: {
            "stages.0.blocks.0.0.attn": slow.rectangles(9, 13, (4, 4)),
            "stages.1.blocks.0.0.attn": slow.rectangles(5, 7, (4, 4)),
        },
        skipped=("stages.0.blocks.0.1.attn", "stages.1.blocks.0.1.attn"),
        weights=lambda *given: softmax_rows(*given)[::2],  # without those between channels
        notes="its channel attention is skipped and listed",
    ),
    Case(
        "GCViT",
        "timm/gcvit_xxtiny",
        f"{WINDOWS}, in every second layer with queries pooled from the whole image",
        build=partial(
            built,
            "gcvit.GlobalContextVit",
            img_size=(48, 80),
            depths=(2,),
            embed_dim=32,
            num_heads=(2,),
            window_size=((6, 10),),
        ),
        size=(48, 80),
        places=lambda: {
            f"stages.0.blocks.{block}.attn": slow.rectangles(12, 20, (6, 10)) for block in range(2)
        },
        notes="a row of a shared query is counted from the patch that gets its output",
    ),
    Case(
        "TinyViT",
        "timm/tiny_vit_5m_224",
        WINDOWS,
        build=partial(
            built,
            "tiny_vit.TinyVit",
            depths=(1, 1, 1),
            embed_dims=(32, 48, 64),
            num_heads=(2, 3, 4),
            window_sizes=(7, 4, 3),
        ),
        size=(80, 48),
        places=lambda: {
            "stages.1.blocks.0.attn": slow.rectangles(10, 6, (4, 4)),
            "stages.2.blocks.0.attn": slow.rectangles(5, 3, (3, 3)),
        },
        notes=PADDED,
    ),
    Case(
        "NesT",
        "timm/nest_tiny",
        "blocks of the map, a fourth as many in the next level",
        build=partial(
            built,
            "nest.Nest",
            img_size=40,
            num_levels=2,
            embed_dims=(32, 48),
            num_heads=(2, 3),
            depths=(1, 1),
        ),
        size=(40, 40),
        places=lambda: {
            "levels.0.transformer_encoder.0.attn": inner(slow.rectangles(10, 10, (5, 5))),
            "levels.1.transformer_encoder.0.attn": inner(slow.rectangles(5, 5, (5, 5))),
        },
        notes="timm takes square images only",
    ),
    Case(
        "MobileViT",
        "timm/mobilevit_xxs",
        "windows of every second row and column",
        build=partial(create_timm, "mobilevit_xxs", num_classes=5),
        size=(64, 128),
        places=mobilevit_places,
    ),
    Case(
        "HaloNet",
        "timm/halonet26t",
        "blocks, whose keys are the block and a halo around it",
        build=HaloToy,
        size=(24, 36),
        places=lambda: {"attn": halos(6, 9, 3, 2)},
        weights=heads_first,
        notes="a halo beyond the map has no place",
    ),
    Case(
        "LeViT",
        "timm/levit_128s",
        "patches row by row; down-sampling layers ask from every second one",
        build=partial(
            built,
            "levit.Levit",
            img_size=(80, 112),
            embed_dim=(32, 48),
            key_dim=8,
            num_heads=(2, 3),
            depth=(1, 1),
        ),
        size=(80, 112),
        places=lambda: {
            "stages.0.blocks.0.attn": slow.whole(5, 7),
            "stages.1.downsample.attn_downsample": slow.pooled(
                [slow.covered(5, 1, 2, 0), slow.covered(7, 1, 2, 0)],
                [list(range(5)), list(range(7))],
                (2, 2),
            ),
            "stages.1.blocks.0.attn": slow.whole(3, 4),
        },
        notes="no residual path around its down-sampling",
    ),
    Case(
        "Hiera of SAM 2",
        "timm/sam2_hiera_tiny",
        f"{WINDOWS}, queries at the centre of the 2x2 they are pooled from",
        build=partial(
            built,
            "hieradet_sam2.HieraDet",
            embed_dim=32,
            num_heads=2,
            stages=(1, 3),
            q_pool=1,
            window_spec=(4, 2),
            global_att_blocks=(3,),
        ),
        size=(64, 96),
        places=sam2_places,
    ),
    Case(
        "TNT",
        "timm/tnt_s_legacy_patch16_224",
        "4x4 pixel tokens inside each patch, then a class token and the patches row by row",
        build=partial(
            built,
            "tnt.TNT",
            legacy=True,
            img_size=(32, 48),
            depth=2,
            embed_dim=48,
            inner_dim=24,
            num_heads_inner=2,
            num_heads_outer=3,
        ),
        size=(32, 48),
        places=tnt_places,
    ),
    Case(
        "CvT",
        "hf/microsoft/cvt-13",
        "patches row by row, keys at the centres of their kernels; a class token in the last stage",
        build=partial(
            hugging_face,
            "Cvt",
            embed_dim=[32, 48, 48],
            num_heads=[1, 2, 3],
            depth=[1, 2, 3],
        ),
        size=(48, 80),
        places=lambda: {
            f"encoder.stages.{stage}.layers.{layer}.attention.attention": slow.pooled(
                [list(range(rows)), list(range(cols))],
                [slow.covered(rows, 3, 2, 1), slow.covered(cols, 3, 2, 1)],
                num_prefix=int(stage == 2),
            )
            for stage, (rows, cols) in enumerate([(12, 20), (6, 10), (3, 5)])
            for layer in range(stage + 1)
        },
        notes="kernel 3, padding 1: a cell sits on its middle patch",
    ),
    Case(
        "SegFormer",
        "hf/nvidia/mit-b0",
        "queries on the grid of the stage, keys at the centres of their pooled cells",
        build=partial(
            hugging_face,
            "Segformer",
            num_encoder_blocks=2,
            depths=[1, 1],
            hidden_sizes=[32, 48],
            num_attention_heads=[2, 3],
            sr_ratios=[4, 2],
            mlp_ratios=[2, 2],
            patch_sizes=[7, 3],
            strides=[4, 2],
        ),
        size=(52, 76),
        places=lambda: {
            "stages.0.blocks.0.attention": pooled((13, 19), 4),
            "stages.1.blocks.0.attention": pooled((7, 10), 2),
        },
    ),
]
