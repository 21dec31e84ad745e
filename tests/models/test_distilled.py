"""The distillation token: timm's logits, two heads while distilling, their mean otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from timm.models.deit import VisionTransformerDistilled
from torch import Tensor, nn

import nearsight as ns
from nearsight.core import UserError
from nearsight.models.layers.grid import Grid
from nearsight.models.load.registry import create_model, model_for
from nearsight.models.load.weights import load_weights
from nearsight.models.vit import SIZES
from nearsight.protocol.schema import ModelSettings


def images_of(count: int) -> Tensor:
    return torch.randn(count, 3, 12, 20, generator=torch.Generator().manual_seed(7))


def distilled(num_classes: int = 7, num_registers: int = 0) -> nn.Module:
    """Every weight moved, so that zero biases and unit scales hide nothing."""
    model = create_model(
        "mu", num_classes, (12, 20), 4, num_registers=num_registers, distilled=True
    )
    source = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=source) * 0.1)
    return model.double()


@pytest.mark.parametrize("mode", ["evaluation", "training", "distilling"])
def test_logits_equal_timms_distilled_with_the_same_weights(mode: str):
    size, ours = SIZES["mu_vit"], distilled()
    theirs = VisionTransformerDistilled(
        img_size=(12, 20),
        patch_size=4,
        num_classes=7,
        embed_dim=size.width,
        depth=size.depth,
        num_heads=size.num_heads,
        mlp_ratio=size.mlp_width / size.width,
    ).double()
    theirs.load_state_dict(ours.state_dict())
    answers = []
    for model in (ours, theirs):
        model.train(mode != "evaluation")
        model.set_distilled_training(mode == "distilling")
        answers.append(model(images_of(5).double()))
    assert isinstance(answers[0], tuple) == (mode == "distilling")
    torch.testing.assert_close(answers[0], answers[1])


def test_both_heads_read_their_own_token_and_evaluation_takes_the_mean():
    model = distilled()
    tokens = model.forward_features(images_of(3).double())
    model.set_distilled_training()
    of_class, of_teacher = model(images_of(3).double())
    torch.testing.assert_close(of_class, model.head(tokens[:, 0]))
    torch.testing.assert_close(of_teacher, model.head_dist(tokens[:, 1]))
    mean = model.eval()(images_of(3).double())
    torch.testing.assert_close(mean, 0.5 * of_class + 0.5 * of_teacher)


def test_the_token_stands_between_class_and_registers_and_has_a_position():
    model = distilled(num_registers=2)
    assert (model.grid, model.num_prefix) == (Grid(3, 5), 4)
    inputs = []
    model.blocks[0].register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
    model(images_of(3).double())
    prefix = torch.cat([model.cls_token, model.dist_token, model.reg_token], dim=1)
    torch.testing.assert_close(inputs[0][1, :4], (prefix + model.pos_embed[:, :4])[0])


def test_every_parameter_gets_a_gradient_with_one_output_and_with_two():
    for both in (False, True):
        model = distilled()
        model.set_distilled_training(both)
        answer = model(images_of(5).double())
        logits = torch.cat(answer) if both else answer
        logits.log_softmax(-1)[:, 0].sum().backward()
        missing = [
            name
            for name, weight in model.named_parameters()
            if weight.grad is None or not weight.grad.abs().sum() > 0
        ]
        assert missing == []


@pytest.mark.slow
def test_measuring_leaves_the_distillation_token_out_of_the_patches():
    profile = ns.measure_model(distilled().float(), images_of(3), metrics=("mad",))
    plain = create_model("mu", 7, (12, 20), 4)
    expected = ns.measure_model(plain, images_of(3), metrics=("mad",))
    assert [x.shape for x in profile.mad.values] == [x.shape for x in expected.mad.values]
    assert {layer.num_prefix for layer in profile.layers} == {2}


def test_a_protocols_settings_reach_the_model():
    settings = ModelSettings(name="mu_vit", distilled=True)
    model, _ = model_for(settings, 7, (16, 16))
    assert model.head_dist.out_features == 7


def test_both_heads_start_afresh_for_other_classes_unless_exact_weights_are_asked(tmp_path: Path):
    path = tmp_path / "five.safetensors"
    save_file(distilled(num_classes=5).state_dict(), path)
    (note,) = load_weights(distilled(num_classes=7), path)
    assert "for 5 classes; head.weight, head.bias, head_dist.weight, head_dist.bias" in note
    with pytest.raises(UserError, match=r"head.*weight \[5, 22\] instead of \[7, 22\]"):
        load_weights(distilled(num_classes=7), path, exact=True)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"name": "mu", "pool": "avg"}, "pool is 'avg'"),
        ({"name": "mu_locat"}, r"\bPRR\b.*\bdistilled\b.*\brefine=False\b"),
        ({"name": "resnet10t"}, r"\bdistilled=True\b.*'resnet10t'"),
    ],
)
def test_what_a_distillation_token_does_not_go_with_is_refused(change: dict, sentence: str):
    with pytest.raises(UserError, match=sentence):
        create_model(**change, distilled=True)


def test_a_plain_model_cannot_be_switched_to_two_answers():
    with pytest.raises(UserError, match=r"\bdistilled=True\b"):
        create_model("mu").set_distilled_training()
