"""The ViT: contracts over all sizes, timm's logits, both kernels, compiling and tracing."""

from __future__ import annotations

import io
import subprocess
import sys
import warnings

import pytest
import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer as TimmVisionTransformer
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.models.layers import attention
from nearsight.models.layers.grid import Grid
from nearsight.models.load.registry import create_model
from nearsight.models.vit import SIZES, VisionTransformer


def images_of(count: int, height: int = 32, width: int = 32) -> Tensor:
    return torch.randn(count, 3, height, width, generator=torch.Generator().manual_seed(7))


def shaken(model: nn.Module) -> nn.Module:
    """The model with every weight moved, so that zero biases and unit scales hide nothing."""
    source = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=source).to(weight) * 0.1)
    return model


def gradients(model: nn.Module, images: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    labels = torch.arange(len(images)) % model.head.out_features
    logits = model(images)
    model.zero_grad()
    F.cross_entropy(logits, labels).backward()
    return logits.detach(), {name: weight.grad for name, weight in model.named_parameters()}


@pytest.mark.parametrize("num_registers", [0, 3])
@pytest.mark.parametrize("name", list(SIZES))
def test_every_parameter_gets_a_gradient(name: str, num_registers: int):
    model = shaken(create_model(name, 7, num_registers=num_registers))
    _, grads = gradients(model, images_of(5))
    without = [key for key, grad in grads.items() if grad is None or not grad.abs().sum() > 0]
    assert without == []


def test_compact_has_the_papers_2_42_million_parameters():
    count = sum(weight.numel() for weight in create_model("compact", 100).parameters())
    width, mlp = 192, 384
    block = 4 * width**2 + 4 * width + 2 * width * mlp + mlp + width + 4 * width
    patches, positions, head = (3 * 16 + 1) * width, (1 + 65) * width, (width + 1) * 100
    assert count == patches + positions + 8 * block + 2 * width + head == 2_417_956


@pytest.mark.parametrize("num_registers", [0, 2])
@pytest.mark.parametrize(("name", "mlp_ratio"), [("compact_vit", 2.0), ("mu_vit", 46 / 22)])
def test_logits_equal_timms_with_the_same_weights(name: str, mlp_ratio: float, num_registers: int):
    size = SIZES[name]
    ours = shaken(create_model(name, 11, num_registers=num_registers)).double().eval()
    theirs = TimmVisionTransformer(
        img_size=32,
        patch_size=4,
        num_classes=11,
        embed_dim=size.width,
        depth=size.depth,
        num_heads=size.num_heads,
        mlp_ratio=mlp_ratio,
        reg_tokens=num_registers,
    ).double()
    theirs.load_state_dict(ours.state_dict())
    torch.testing.assert_close(ours(images_of(3).double()), theirs.eval()(images_of(3).double()))


@pytest.mark.parametrize("name", ["compact", "mu"])
def test_fused_and_explicit_agree_in_logits_and_every_gradient(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    model, images = shaken(create_model(name, 13)), images_of(5)
    results = []
    for kernel in ("explicit", "fused"):
        monkeypatch.setattr(attention, "attention_kernel", lambda *_, kernel=kernel: kernel)
        results.append(gradients(model, images))
    (logits, grads), (fused_logits, fused_grads) = results
    torch.testing.assert_close(logits, fused_logits, atol=1e-5, rtol=1e-5)
    assert grads.keys() == fused_grads.keys()
    for key, grad in grads.items():
        torch.testing.assert_close(grad, fused_grads[key], atol=1e-5, rtol=1e-5, msg=key)


def test_a_training_step_repeats_bit_for_bit():
    model, images = shaken(create_model("nano", 5)), images_of(3)
    (one, grads), (two, again) = gradients(model, images), gradients(model, images)
    assert one.equal(two)
    assert all(grads[key].equal(again[key]) for key in grads)


def test_a_non_square_image_is_cut_row_by_row():
    """Moving a patch and its position together moves nothing but the order: two roads."""
    model = shaken(create_model("mu", 5, image_size=(24, 40), patch_size=4)).double()
    assert (model.grid, model.num_prefix) == (Grid(6, 10), 1)
    image = images_of(1, 24, 40).double()
    rows, cols = 2, 7
    patch = image[:, :, 4 * rows : 4 * rows + 4, 4 * cols : 4 * cols + 4]
    kernel = model.patch_embed.proj
    by_hand = (patch * kernel.weight).sum((1, 2, 3)) + kernel.bias
    torch.testing.assert_close(model.patch_embed(image)[0, rows * 10 + cols], by_hand)
    rolled = image.roll(4, dims=-1)
    before = model(image)
    positions = model.pos_embed.data[:, 1:].unflatten(1, (6, 10))
    model.pos_embed.data[:, 1:] = positions.roll(1, dims=2).flatten(1, 2)
    torch.testing.assert_close(model(rolled), before)


def test_registers_are_tokens_between_class_and_patches():
    model = shaken(create_model("mu", 5, num_registers=3))
    assert model.num_prefix == 4
    inputs = []
    model.blocks[0].register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
    features = model.forward_features(images_of(2))
    assert features.shape == (2, 4 + 64, 22)
    torch.testing.assert_close(inputs[0][1, 1:4], (model.reg_token + model.pos_embed[:, 1:4])[0])
    torch.testing.assert_close(inputs[0][0, 0], (model.cls_token + model.pos_embed[:, :1])[0, 0])
    with pytest.raises(UserError, match="num_registers is -1"):
        create_model("mu", 5, num_registers=-1)


def test_another_image_size_is_refused_with_both_sizes():
    with pytest.raises(UserError, match=r"24x40 pixels, .* 32x32"):
        create_model("mu", 5)(images_of(2, 24, 40))


def test_an_empty_batch_gives_no_logits_and_zero_gradients():
    model = create_model("mu", 5)
    logits = model(images_of(0))
    logits.sum().backward()
    assert logits.shape == (0, 5)
    assert all(weight.grad.eq(0).all() for weight in model.parameters())


@pytest.mark.slow
def test_export_traces_the_fused_kernel():
    model = shaken(create_model("mu", 5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(model, (images_of(2),))
    called = {str(node.target) for node in program.graph.nodes}
    assert any("scaled_dot_product_attention" in name for name in called)
    torch.testing.assert_close(program.module()(images_of(2)), model(images_of(2)))


TRACED = """
import torch, torch.nn.functional as F, warnings
from nearsight.models.load.registry import create_model

warnings.simplefilter("ignore")
torch.set_num_threads(1)
torch.manual_seed(0)
model, images = create_model("mu", 5), torch.randn(3, 3, 32, 32)
F.cross_entropy(model(images), torch.arange(3)).backward()
expected = [weight.grad.clone() for weight in model.parameters()]
model.zero_grad()
compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
F.cross_entropy(compiled(images), torch.arange(3)).backward()
for weight, grad in zip(model.parameters(), expected):
    torch.testing.assert_close(weight.grad, grad, atol=1e-5, rtol=1e-5)
traced = torch.jit.trace(model, (images,))
assert "scaled_dot_product_attention" in str(traced.inlined_graph)
torch.testing.assert_close(traced(images), model(images), atol=1e-5, rtol=1e-5)
"""


@pytest.mark.processes
def test_compiled_in_one_graph_and_traced_the_model_gives_the_same_numbers():
    """In a process without the shape checks, which neither tracer can look through."""
    done = subprocess.run([sys.executable, "-c", TRACED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_model_survives_saving_and_loading_its_state():
    model, other = shaken(create_model("mu", 5)), create_model("mu", 5)
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    buffer.seek(0)
    other.load_state_dict(torch.load(buffer, weights_only=True))
    assert isinstance(other, VisionTransformer)
    assert other(images_of(2)).equal(model(images_of(2)))
