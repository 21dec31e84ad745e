"""What weight decay acts on, and frozen parameters through a run's state."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from nearsight.core import UserError
from nearsight.models.load.registry import create_model
from nearsight.protocol.schema import Optimizer
from nearsight.train.optim import MovingAverage, adamw, parameter_groups
from nearsight.train.state import TrainingState


def names_by_decay(model: nn.Module, settings: Optimizer) -> dict[float, set[str]]:
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return {
        group["weight_decay"]: {names[id(parameter)] for parameter in group["params"]}
        for group in parameter_groups(model, settings)
    }


def test_decay_of_matrices_spares_biases_norms_tokens_and_positions() -> None:
    model = create_model("mu", num_classes=7, num_registers=3)
    groups = names_by_decay(model, Optimizer(weight_decay=0.3, decayed="matrices"))
    assert groups[0.3] == {
        "patch_embed.proj.weight",
        "head.weight",
        *(
            f"blocks.{block}.{name}.weight"
            for block in range(2)
            for name in ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2")
        ),
    }
    everything = {name for name, _ in model.named_parameters()}
    assert groups[0.0] == everything - groups[0.3]
    assert {"cls_token", "reg_token", "pos_embed", "norm.weight"} <= groups[0.0]


def test_decay_of_all_is_one_group_in_the_models_order() -> None:
    model = create_model("mu", num_classes=7)
    (group,) = parameter_groups(model, Optimizer(weight_decay=0.3))
    assert [id(p) for p in group["params"]] == [id(p) for p in model.parameters()]


def test_what_a_model_of_timm_wants_spared_is_spared() -> None:
    model = nn.Linear(3, 5)
    model.no_weight_decay = lambda: {"weight"}  # type: ignore[assignment]
    assert names_by_decay(model, Optimizer(decayed="matrices")) == {0.0: {"weight", "bias"}}


def test_one_step_without_gradient_shrinks_matrices_only() -> None:
    model = nn.Linear(3, 5)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = adamw(model, Optimizer(lr=0.1, weight_decay=0.5, decayed="matrices"))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    torch.testing.assert_close(model.weight, before["weight"] * (1 - 0.1 * 0.5))
    assert torch.equal(model.bias, before["bias"])


def half_frozen() -> TrainingState:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2))
    model[0].requires_grad_(False)
    return TrainingState(
        model=model,
        optimizer=adamw(model, Optimizer(lr=0.1, decayed="matrices")),
        average=MovingAverage(model, 0.9),
        scaler=torch.amp.GradScaler("cpu", enabled=False),
        kept=model,
    )


def one_step(state: TrainingState) -> None:
    state.optimizer.zero_grad()
    state.model(torch.ones(7, 3)).square().sum().backward()
    state.optimizer.step()
    assert state.average is not None
    state.average.update(state.model, 10_000)


def test_frozen_parameters_stay_through_steps_checkpoint_and_average() -> None:
    whole, stopped = half_frozen(), half_frozen()
    start = whole.model[0].weight.detach().clone()
    one_step(whole)
    one_step(stopped)
    tensors, facts = stopped.tensors(), stopped.facts()
    resumed = half_frozen()
    resumed.restore({name: t.clone() for name, t in tensors.items()}, facts)
    one_step(whole)
    one_step(resumed)
    for name, tensor in whole.tensors().items():
        assert torch.equal(resumed.tensors()[name], tensor), name
    assert torch.equal(resumed.model[0].weight, start)
    assert torch.equal(resumed.average.weights["0.weight"], start)
    assert not any("optimizer" in name and ".0." in name for name in tensors)


def test_a_model_that_is_frozen_whole_is_refused() -> None:
    with pytest.raises(UserError, match=r"\bparameters\b.*\bfrozen\b"):
        adamw(nn.Linear(3, 5).requires_grad_(False), Optimizer())


def test_the_models_own_weights_come_back_when_validation_fails() -> None:
    model = nn.Linear(2, 3)
    average = MovingAverage(model, decay=0.9)
    with torch.no_grad():
        model.weight.fill_(5.0)

    def validate() -> None:
        with average.swap_in(model):
            assert not bool((model.weight == 5.0).any())
            raise ValueError("the validation loss became nan")

    with pytest.raises(ValueError, match="became nan"):
        validate()
    assert bool((model.weight == 5.0).all())
