"""What cannot be measured is refused by name, with the reason."""

import pytest
import torch
from measure.layout.families_global import create_timm
from measure.layout.families_refused import REFUSED

from nearsight.core import UserError
from nearsight.measure.capture.interception import AttentionCapture
from nearsight.measure.layout.families import layout_of
from nearsight.measure.profile.profile import measure_model
from nearsight.models.layers.grid import Grid


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_a_model_without_patches_that_attend_is_refused_with_the_reason(case):
    if case.example.startswith("hf/"):
        pytest.importorskip("transformers", reason="the hf extra is not installed")
    images = torch.zeros(2, 3, *case.size)
    with pytest.raises(UserError, match=case.says):
        measure_model(case.build(), images)


def test_a_grid_is_not_taken_for_a_model_whose_layers_have_their_own():
    model = create_timm("pvt_v2_b0", depths=(1,), embed_dims=(12,), num_heads=(2,), sr_ratios=(2,))
    with pytest.raises(UserError, match=r"\bgrid= .*num_prefix= .*\bAttention\b"):
        measure_model(model, torch.zeros(2, 3, 32, 48), grid=Grid(8, 12))


def refused_layout(model, *inputs, **more):
    with torch.no_grad(), AttentionCapture(model.eval(), lambda call: layout_of(call)):
        model(*inputs, **more)


def test_naflex_patches_cut_beforehand_are_refused():
    model = create_timm("naflexvit_base_patch16_gap", depth=1, embed_dim=24, num_heads=3)
    rows, cols = torch.meshgrid(torch.arange(3), torch.arange(5), indexing="ij")
    places = torch.stack([rows, cols], dim=-1).view(1, 15, 2)
    patches = {"patches": torch.zeros(1, 15, 16 * 16 * 3), "patch_coord": places}
    with pytest.raises(
        UserError, match=r"\bblocks\.0\.attn \(Attention\).*\[n, 3, height, width\]"
    ):
        refused_layout(model, patches | {"patch_valid": torch.ones(1, 15, dtype=torch.bool)})


def test_hiera_with_patches_masked_out_is_refused():
    model = create_timm("hiera_tiny_224", img_size=(64, 96), embed_dim=12, stages=(1, 1, 1, 1))
    kept = torch.tensor([[True, False, True, True, False, True]])
    with pytest.raises(UserError, match=r"\(MaskUnitAttention\).*\b256 tokens\b"):
        refused_layout(model, torch.zeros(1, 3, 64, 96), mask=kept)
