"""Metrics of a layer's features: solved by hand, by loops, and which models have them."""

import pytest
import timm
import torch
from measure import reference_metrics as slow
from measure import toy_models
from torch import nn

from nearsight.core import UserError
from nearsight.measure.metrics.features import cls_similarity, locality_score
from nearsight.measure.profile.profile import measure_model

FEATURES = ("locality_score", "cls_similarity")


def random_map(batch=2, rows=3, cols=5, width=7):
    return torch.randn(batch, rows, cols, width, generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize(("rows", "cols"), [(3, 5), (1, 7), (2, 2)])
def test_features_equal_plain_loops(rows, cols):
    patches = random_map(rows=rows, cols=cols)
    cls = torch.randn(2, 7, generator=torch.Generator().manual_seed(5))
    for image in range(2):
        vectors = patches[image].flatten(0, 1).double().tolist()
        expected = slow.neighbour_cosine(vectors, rows, cols)
        assert locality_score(patches)[image].item() == pytest.approx(expected, abs=1e-12)
        similar = [slow.cosine(x, cls[image].double().tolist()) for x in vectors]
        expected = sum(similar) / len(similar)
        assert cls_similarity(patches, cls)[image].item() == pytest.approx(expected, abs=1e-12)


def test_a_checkerboard_of_opposites_is_solved_by_hand():
    # 2x2: each patch has two neighbours of the other colour and one of its own
    board = torch.tensor([[1.0, -1.0], [-1.0, 1.0]])[None, ..., None]
    assert locality_score(board).item() == pytest.approx(-1 / 3, abs=1e-15)


def test_equal_features_are_wholly_local_whatever_their_length():
    lengths = torch.rand(1, 3, 5, 1) + 0.1
    assert locality_score(lengths * torch.ones(7)).item() == pytest.approx(1, abs=1e-14)


def test_turning_the_map_changes_nothing():
    patches = random_map()
    turned = locality_score(patches.transpose(1, 2))
    assert torch.allclose(locality_score(patches), turned, atol=1e-14)
    assert torch.allclose(locality_score(patches), locality_score(patches.flip(2)), atol=1e-14)


@pytest.mark.slow
def test_a_profile_takes_the_output_of_each_block():
    model, images = toy_models.plain(), toy_models.images(12, 20)
    outputs = []
    handles = [
        block.register_forward_hook(lambda module, args, output: outputs.append(output))
        for block in model.blocks
    ]
    with torch.no_grad():
        model(images)
    for handle in handles:
        handle.remove()
    profile = measure_model(model, images.split(5), metrics=FEATURES)
    for layer, output in enumerate(outputs):
        patches = output[:, 2:].reshape(7, 3, 5, -1)
        expected = locality_score(patches).numpy()
        assert profile.locality_score.values[layer] == pytest.approx(expected, abs=1e-5)
        expected = cls_similarity(patches, output[:, 0]).numpy()
        assert profile.cls_similarity.values[layer] == pytest.approx(expected, abs=1e-5)
    assert profile.unavailable == ()


@pytest.mark.slow
def test_swin_has_maps_but_no_class_token():
    model, images = toy_models.windows(), toy_models.images(20, 28)
    outputs = []
    with torch.no_grad():
        handle = model.layers[0].blocks[1].register_forward_hook(lambda *x: outputs.append(x[2]))
        model(images)
        handle.remove()
    profile = measure_model(model, images, metrics=FEATURES)
    expected = locality_score(outputs[0].reshape(7, 5, 7, -1)).numpy()
    assert profile.locality_score.values[1] == pytest.approx(expected, abs=1e-5)
    assert [x[:2] for x in profile.unavailable] == [
        ("cls_similarity", "layers.0.blocks.0.attn"),
        ("cls_similarity", "layers.0.blocks.1.attn"),
    ]
    assert "no class token" in profile.unavailable[0][2]
    assert all(values != values for values in profile.cls_similarity.values[0])  # NaN


def test_registers_alone_are_no_class_token():
    options = {"img_size": (12, 20), "patch_size": 4, "embed_dim": 12, "depth": 1, "num_heads": 2}
    model = timm.models.VisionTransformer(
        **options, class_token=False, reg_tokens=2, global_pool="avg", num_classes=3
    )
    profile = measure_model(model, toy_models.images(12, 20), metrics=FEATURES)
    assert profile.layers[0].num_prefix == 2
    assert [x[0] for x in profile.unavailable] == ["cls_similarity"]
    assert abs(profile.locality_score.values[0]).max() <= 1


def test_hieras_unrolled_tokens_have_no_features_in_image_order():
    model = timm.models.hiera.Hiera(
        img_size=(64, 96), embed_dim=8, num_heads=1, stages=(1, 1), q_pool=1, patch_stride=(4, 4),
        mask_unit_size=(4, 4), num_classes=3, mask_unit_attn=(True, False),
    )  # fmt: skip
    profile = measure_model(model, toy_models.images(64, 96, count=2), metrics=FEATURES)
    assert {x[0] for x in profile.unavailable} == {*FEATURES}
    assert "in the order of the image" in profile.unavailable[0][2]


class Bare(nn.Module):
    """Attention right inside the list of layers: its output is no block's."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Conv2d(3, 8, 4, 4)
        self.layers = nn.ModuleList([nn.MultiheadAttention(8, 2, batch_first=True)])

    def forward(self, images):
        x = self.embed(images).flatten(2).transpose(1, 2)
        for layer in self.layers:
            x = x + layer(x, x, x, need_weights=False)[0]
        return x


@pytest.mark.slow
def test_attention_without_a_block_around_it_has_no_features():
    profile = measure_model(Bare(), toy_models.images(12, 20), metrics=(*FEATURES, "mad"))
    assert {x[0] for x in profile.unavailable} == {*FEATURES}
    assert "no block" in profile.unavailable[0][2]
    assert (profile.mad.values[0] > 0).all()


def test_a_map_of_one_patch_has_no_neighbours():
    with pytest.raises(UserError, match=r"\blocality_score\b.*\b2 patches\b"):
        locality_score(torch.ones(1, 1, 1, 3))
