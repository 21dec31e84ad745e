"""The Jumbo ViT: a slow forward, the published names, the shared MLP, its start, timm's habits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import timm
import torch
import torch.nn.functional as F
from models.zoo.reference_jumbo import COLS, HEADS, PATCH, ROWS, TOKENS, slow_logits
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import nearsight.timm  # noqa: F401
from nearsight.core import UserError
from nearsight.models.load.registry import create_model
from nearsight.models.load.weights import load_weights
from nearsight.models.parts.locat.locat import add_locat
from nearsight.models.zoo.jumbo import JumboViT
from nearsight.models.zoo.locat_models import LocAtJumbo
from nearsight.train.state import TrainingState

PARITY = Path(__file__).parents[4] / "shared" / "parity"
CLASSES, HEAD_WIDTH = 11, 13
TINY = {
    "img_size": (ROWS * PATCH, COLS * PATCH),
    "patch_size": PATCH,
    "embed_dim": HEAD_WIDTH * HEADS,
    "depth": 2,
    "num_heads": HEADS,
    "num_class_tokens": TOKENS,
    "num_classes": CLASSES,
}


def images_of(count: int, rows: int = ROWS, cols: int = COLS) -> Tensor:
    source = torch.Generator().manual_seed(7)
    return torch.randn(count, 3, rows * PATCH, cols * PATCH, generator=source)


def shaken(model: nn.Module) -> nn.Module:
    """The model with every weight moved, so that zero heads and small scales hide nothing."""
    source = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=source) * 0.2)
    return model


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize("gaussian", [False, True])
def test_logits_equal_a_slow_forward_by_published_names(gaussian: bool, refine: bool):
    model = shaken(LocAtJumbo(gaussian=gaussian, refine=refine, **TINY)).double().eval()
    images = images_of(2).double()
    expected = slow_logits(model.state_dict(), images)
    torch.testing.assert_close(model(images), expected)


@pytest.mark.parametrize("refine", [False, True])
def test_every_parameter_gets_a_gradient_but_what_follows_the_last_attention_needs_prr(
    refine: bool,
):
    model = shaken(LocAtJumbo(refine=refine, **TINY))
    F.cross_entropy(model(images_of(2)), torch.tensor([1, 4])).backward()
    without = {
        name.rpartition(".")[0]
        for name, weight in model.named_parameters()
        if weight.grad is None or not weight.grad.abs().sum() > 0
    }
    of_patches = ("attn.gaug.log_var", "attn.gaug.log_alpha", "norm2", "mlp.fc1", "mlp.fc2", "ls2")
    assert without == (set() if refine else {f"blocks.1.{name}" for name in of_patches})


@pytest.mark.parametrize("name", ["jumbo_tiny", "locatjumbo_tiny"])
def test_names_and_shapes_are_the_published_ones_in_their_order(name: str):
    if not PARITY.is_dir():
        pytest.skip("no folder shared/parity beside the repository")
    published = json.loads((PARITY / "names.json").read_text())[f"{name}, num_classes=100"]
    with torch.device("meta"):
        model = create_model(name, num_classes=100)
    ours = [(name, list(weight.shape)) for name, weight in model.state_dict().items()]
    assert ours == list(published.items())


@pytest.mark.parametrize(("width", "num_heads", "millions"), [(192, 3, 17.35), (768, 12, 260.50)])
def test_parameters_are_the_papers_17_and_260_million(width, num_heads, millions):
    with torch.device("meta"):
        model = JumboViT(embed_dim=width, num_heads=num_heads)
    count = sum(weight.numel() for weight in model.parameters())
    wide, hidden = 6 * width, 24 * width
    block = 12 * width**2 + 13 * width + 2 * width + 3 * wide  # attention, MLP, norms; scales
    shared = 2 * wide * hidden + hidden + wide
    stem = (3 * 256 + 1) * width + (6 + 196) * width
    assert count == stem + 12 * block + shared + 2 * wide + (wide + 1) * 1000
    assert count / 1e6 == pytest.approx(millions, abs=0.01)


def test_all_layers_share_one_mlp_and_add_up_its_gradient():
    model = shaken(JumboViT(**TINY))
    alone = shaken(JumboViT(**TINY))
    for block in alone.blocks:  # the same weights, no longer shared
        block.jumbo_mlp = type(block.jumbo_mlp)(TOKENS * 39, TOKENS * 39 * 4)
        block.jumbo_mlp.load_state_dict(model.jumbo_mlp.state_dict())
    alone.load_state_dict(model.state_dict())
    for each in (model, alone):
        F.cross_entropy(each(images_of(2)), torch.tensor([1, 4])).backward()
    first, second = (block.jumbo_mlp.fc1.weight.grad for block in alone.blocks)
    assert min(first.norm(), second.norm()) > 1e-3
    torch.testing.assert_close(model.jumbo_mlp.fc1.weight.grad, first + second)


def test_before_training_all_classes_are_equally_likely():
    model = JumboViT(**TINY)
    torch.testing.assert_close(model(images_of(2)).exp(), torch.full((2, CLASSES), 1 / CLASSES))
    model.reset_classifier(17)
    torch.testing.assert_close(model(images_of(2)).exp(), torch.full((2, 17), 1 / 17))


def test_init_weights_brings_every_weight_back_to_its_start():
    torch.manual_seed(0)
    model = LocAtJumbo(**TINY)
    for _ in ("as built", "shaken and started again"):
        assert spread(model.cls_token) == pytest.approx(0.02, rel=0.2)
        assert spread(model.jumbo_mlp.fc1.weight) == pytest.approx(0.02, rel=0.05)
        assert spread(model.blocks[0].attn.qkv.weight) == pytest.approx(0.02, rel=0.05)
        assert spread(model.blocks[1].attn.gaug.log_var.weight) == pytest.approx(0.02, rel=0.5)
        assert model.blocks[1].ls3.gamma.unique().tolist() == [pytest.approx(1e-4)]
        assert model.blocks[0].norm3.weight.unique().tolist() == [1]
        assert model.head.weight.unique().tolist() == [0]
        shaken(model).init_weights()


def spread(weight: Tensor) -> float:
    return weight.detach().std().item()


def test_no_classes_give_the_features_before_the_head():
    model = shaken(JumboViT(**TINY)).eval()
    features = model.forward_features(images_of(2))
    wide = model.forward_head(features, pre_logits=True)
    logits = model(images_of(2))
    torch.testing.assert_close(logits, wide @ model.head.weight.T + model.head.bias)
    model.reset_classifier(0)
    torch.testing.assert_close(model(images_of(2)), wide)
    model.reset_classifier(0, global_pool="")
    torch.testing.assert_close(model(images_of(2)), features)
    assert model.head_hidden_size == wide.shape[-1]


def test_intermediates_are_the_blocks_outputs_with_patches_on_their_grid():
    model = shaken(JumboViT(**TINY)).eval()
    x = model._pos_embed(model.patch_embed(images_of(2)))
    after = [x := block(x) for block in model.blocks]
    final, found = model.forward_intermediates(images_of(2), return_prefix_tokens=True)
    for x, (patches, prefix) in zip(after, found):
        torch.testing.assert_close(prefix, x[:, :TOKENS])
        assert torch.equal(patches[:, :, 2, 1], x[:, TOKENS + 2 * COLS + 1])
    torch.testing.assert_close(final, model.forward_features(images_of(2)))
    torch.testing.assert_close(final[:, TOKENS:], after[-1][:, TOKENS:])  # no norm of patches


def test_features_only_gives_the_patches_of_the_wanted_layers():
    options = {key: value for key, value in TINY.items() if key != "num_classes"}
    getter, _ = (  # the second shows that timm left our settings as they were
        timm.create_model("locatjumbo_tiny", features_only=True, out_indices=[0, 1], **options)
        for _ in range(2)
    )
    model = shaken(LocAtJumbo(**TINY)).eval()
    getter.model.load_state_dict(model.state_dict(), strict=False)
    expected = model.forward_intermediates(images_of(2), intermediates_only=True)
    torch.testing.assert_close(getter.eval()(images_of(2)), expected)


def test_other_image_sizes_by_set_input_size_and_dynamic_img_size_agree():
    fixed = shaken(LocAtJumbo(**TINY)).eval()
    dynamic = LocAtJumbo(dynamic_img_size=True, **TINY).eval()
    dynamic.load_state_dict(fixed.state_dict())
    torch.testing.assert_close(dynamic(images_of(2)), fixed(images_of(2)))
    larger = images_of(2, rows=4, cols=6)
    fixed.set_input_size(img_size=tuple(larger.shape[-2:]))
    torch.testing.assert_close(dynamic(larger), fixed(larger))


def test_dropped_patches_leave_every_class_token():
    model = shaken(JumboViT(patch_drop_rate=0.6, **TINY)).train()
    x = model._pos_embed(model.patch_embed(images_of(2)))
    kept = model.patch_drop(x)
    assert kept.shape[1] == TOKENS + 6  # of 15 patches
    torch.testing.assert_close(kept[:, :TOKENS], x[:, :TOKENS])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_class_tokens": 0}, "num_class_tokens is 0"),
        ({"embed_dim": 40}, r"\b40\b.*\b3 heads\b"),
        ({"num_heads": 0}, r"\b39\b.*\b0 heads\b"),
        ({"global_pool": "avg"}, "global_pool is 'avg'"),
        ({"reg_tokens": 4}, "reg_tokens is 4"),
    ],
)
def test_impossible_models_are_refused(options: dict, message: str):
    with pytest.raises(UserError, match=message):
        JumboViT(**TINY | options)


def test_a_saved_model_holds_the_shared_mlp_once_and_gives_the_same_logits(tmp_path: Path):
    model = shaken(LocAtJumbo(dynamic_img_size=True, **TINY)).eval()
    model.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    assert sum("jumbo_mlp.fc1.weight" in name for name in saved) == 1
    again = LocAtJumbo.from_pretrained(tmp_path).eval()
    torch.testing.assert_close(again(images_of(2)), model(images_of(2)))
    assert again.blocks[0].jumbo_mlp is again.blocks[1].jumbo_mlp is again.jumbo_mlp


def test_a_run_keeps_the_shared_mlp_once_and_its_file_can_be_loaded(tmp_path: Path):
    model, other = shaken(LocAtJumbo(**TINY)).eval(), LocAtJumbo(**TINY).eval()
    logits = model(images_of(2))
    adamw = torch.optim.AdamW(model.parameters())
    state = TrainingState(
        model, adamw, average=None, scaler=torch.amp.GradScaler("cpu"), kept=model
    )
    state.keep_as_best()
    assert sum(x.numel() for x in state.best.values()) == sum(x.numel() for x in model.parameters())
    assert sum(name.startswith("model.") for name in state.tensors()) == len(state.best)
    shaken(model)
    state.return_to_best()
    torch.testing.assert_close(model(images_of(2)), logits)
    save_file(state.best, tmp_path / "weights.safetensors")
    assert load_weights(other, tmp_path / "weights.safetensors") == []
    torch.testing.assert_close(other(images_of(2)), logits)
    save_file({**state.best, "more": torch.ones(1)}, tmp_path / "weights.safetensors")
    with pytest.raises(UserError, match="unexpected more"):
        load_weights(other, tmp_path / "weights.safetensors")


def test_locat_can_be_added_to_a_jumbo_vit_later():
    plain = shaken(JumboViT(**TINY)).eval()
    whole = shaken(LocAtJumbo(**TINY)).eval()
    added = add_locat(JumboViT(**TINY)).eval()
    assert list(added.state_dict()) == list(whole.state_dict())
    added.load_state_dict(whole.state_dict())
    torch.testing.assert_close(added(images_of(2)), whole(images_of(2)))
    logits = plain(images_of(2))
    gentle = add_locat(plain, refine=False)(images_of(2))
    assert 0 < (gentle - logits).abs().max() < 0.01


@pytest.mark.parametrize("name", ["jumbo_tiny", "jumbo_base", "locatjumbo_tiny", "locatjumbo_base"])
def test_timm_builds_the_named_models(name: str):
    with torch.device("meta"):
        model = timm.create_model(name, num_classes=10)
    assert isinstance(model, LocAtJumbo)
    gaug = sum(weight.numel() for key, weight in model.named_parameters() if "gaug" in key)
    assert gaug == (12 * (3 * 64 + 3) if name.startswith("locat") else 0)
    assert model.pretrained_cfg["input_size"] == (3, 224, 224)
