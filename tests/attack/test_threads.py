"""Measuring in several threads, or inside another measurement: right numbers or a true reason."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import nearsight as ns
from nearsight.core import UserError
from nearsight.models.load import create_model

IMAGES = torch.randn(7, 3, 32, 32, generator=torch.Generator().manual_seed(2))


def model_of(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    model = create_model("mu")
    for block in model.blocks:
        nn.init.normal_(block.attn.qkv.weight, std=0.4)
    return model


def measured_at_once(models: list[nn.Module]) -> list[ns.Profile]:
    with ThreadPoolExecutor(len(models)) as pool:
        return list(pool.map(lambda x: ns.measure_model(x, IMAGES.split(2)), models))


def stance() -> str:
    import torch._dynamo.eval_frame as frame

    return str(frame._stance.stance)


@pytest.mark.slow
@pytest.mark.parametrize("same", [True, False])
def test_two_threads_measure_right_numbers_and_leave_all_as_it_was(same: bool):
    import torch._dynamo  # only then is there a stance to put back

    models = [model_of(3)] * 2 if same else [model_of(3), model_of(5)]
    expected = [ns.measure_model(model, IMAGES.split(2)) for model in models]
    for model in models:
        model.train()
        model.blocks[1].eval()
    torch.manual_seed(11)
    random, stance_before = torch.get_rng_state(), stance()
    found = measured_at_once(models * 2)
    assert found == expected * 2
    assert torch.equal(torch.get_rng_state(), random)
    assert stance() == stance_before == "default"
    assert torch.is_grad_enabled()
    for model in models:
        assert [x.training for x in (model, model.blocks[0], model.blocks[1])] == [
            True,
            True,
            False,
        ]
        assert not any(x._forward_hooks or x._forward_pre_hooks for x in model.modules())


@pytest.mark.slow
def test_a_model_that_another_thread_uses_meanwhile_is_measured_rightly():
    model = model_of(3)
    expected = ns.measure_model(model, IMAGES)
    stop = False

    def use() -> None:
        while not stop:
            with torch.no_grad():
                model(IMAGES[:3])

    with ThreadPoolExecutor(1) as pool:
        used = pool.submit(use)
        try:
            found = [ns.measure_model(model, IMAGES) for _ in range(3)]
        finally:
            stop = True
        used.result()
    assert found == [expected] * 3


@pytest.mark.slow
def test_a_measurement_inside_a_capture_is_refused_with_the_true_reason():
    model, other = model_of(3), model_of(5)
    expected = ns.measure_model(other, IMAGES)
    reason = "VisionTransformer is already being captured.*leave the first `with` block"
    with ns.capture_attention(model) as captured:
        with pytest.raises(UserError, match=reason):
            ns.measure_model(other, IMAGES)
        with pytest.raises(UserError, match="being captured"), ns.capture_attention(model):
            pass
        model(IMAGES)
    assert len(captured) == 2
    assert ns.measure_model(other, IMAGES) == expected
    assert not any(x._forward_hooks for x in model.modules())


@pytest.mark.slow
def test_a_capture_that_fails_does_not_forbid_the_next_one():
    model = model_of(3)
    with pytest.raises(ZeroDivisionError), ns.capture_attention(model):
        print(1 / 0)
    assert ns.measure_model(model, IMAGES).num_images == 7
