"""The DeiT recipe and ConViT's ablations through whole runs: what a model draws can be resumed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from train.recording import PowerCut, Recorder, cut_power, terminate

from nearsight.core.signals import Interrupted
from nearsight.models.load.registry import model_for
from nearsight.protocol.presets import preset
from nearsight.protocol.schema import ModelSettings, Protocol
from nearsight.runs.files import LOG, WEIGHTS, read_log
from nearsight.train.loop import train_run


def _train(protocol: Protocol, out: Path, recorder: Recorder | None = None) -> list[float]:
    recorder = recorder or Recorder()
    train_run(protocol, out, device="cpu", data_root=out.parent, reporter=recorder)
    return recorder.losses


def _small(preset_name: str, small: Protocol, **model: object) -> Protocol:
    """The preset at the size of ``small``: 3 epochs of 4 batches, the last of them smaller."""
    protocol = preset(preset_name, small.data.name)
    return replace(
        protocol, data=small.data, model=replace(protocol.model, **model), epochs=3,
        warmup_epochs=1, batch_size=small.batch_size,
        optimizer=replace(protocol.optimizer, lr=3e-3),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "at_step", "act", "error"),
    [("mu_vit", 6, cut_power, PowerCut), ("test_vit", 7, terminate, Interrupted)],  # ours, timm's
)
def test_a_stopped_run_with_drop_path_ends_with_the_same_bytes(
    small: Protocol, tmp_path: Path, name: str, at_step: int, act: Callable[[], None],
    error: type[BaseException],
):  # fmt: skip
    sizes = {"image_size": 32} if name == "test_vit" else {}
    protocol = _small("deit", small, name=name, drop_path=0.5, **sizes)
    losses = _train(protocol, tmp_path / "whole")
    with pytest.raises(error):
        _train(protocol, tmp_path / "stopped", Recorder(at_step, act))
    torch.manual_seed(7)  # another process has another state
    _train(protocol, tmp_path / "stopped")
    for file in (WEIGHTS, LOG):
        assert (tmp_path / "stopped" / file).read_bytes() == (
            tmp_path / "whole" / file
        ).read_bytes()
    plain = replace(protocol, model=replace(protocol.model, drop_path=0.0))
    assert _train(plain, tmp_path / "plain")[0] != losses[0]  # it did drop something


def test_training_leaves_torchs_random_state_as_it_was(small: Protocol, tmp_path: Path):
    before = torch.get_rng_state()
    _train(_small("deit", small, name="mu_vit"), tmp_path / "run")
    assert torch.equal(torch.get_rng_state(), before)


def test_the_rates_of_a_run_start_and_end_where_the_recipe_says(small: Protocol, tmp_path: Path):
    protocol = _small("deit", small, name="mu_vit")
    _train(replace(protocol, warmup_epochs=1.5), tmp_path / "run")
    rates = [line.lr for line in read_log(tmp_path / "run")]
    # steps 4, 8, 12 of 12, 6 of them warm-up: 4/6 of the way up; then 1/6 and 5/6 of the cosine
    way = 3e-3 - 1e-5
    expected = [1e-6 + (3e-3 - 1e-6) * 4 / 6, 1e-5 + way * 0.9330127, 1e-5 + way * 0.0669873]
    assert rates == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "frozen"),
    [
        ("convit-gates", {"gating_param"}),
        ("convit-attention-convolution", {"gating_param", "qk", "v", "proj", "pos_proj"}),
    ],
)
def test_what_an_ablation_freezes_stays_at_its_start_and_resumes(
    small: Protocol, tmp_path: Path, name: str, frozen: set[str]
):
    protocol = _small(name, small, name="mu_convit")
    _train(protocol, tmp_path / "whole")
    with pytest.raises(PowerCut):
        _train(protocol, tmp_path / "stopped", Recorder(6, cut_power))
    _train(protocol, tmp_path / "stopped")
    weights = load_file(tmp_path / "whole" / WEIGHTS)
    assert (tmp_path / "stopped" / WEIGHTS).read_bytes() == (
        tmp_path / "whole" / WEIGHTS
    ).read_bytes()
    torch.manual_seed(0)
    start, _ = model_for(protocol.model, 3, (16, 16))
    same = {key for key, weight in start.state_dict().items() if torch.equal(weight, weights[key])}
    assert {key.split(".")[3] for key in same if key.startswith("blocks.0.attn.")} == frozen
    assert not any(key.startswith(("blocks.0.mlp", "blocks.1")) for key in same)


def test_no_gpsa_is_the_plain_model_of_as_many_heads():
    torch.manual_seed(0)
    without, _ = model_for(preset("convit-gpsa").model, 7, (32, 32))
    torch.manual_seed(0)
    plain, _ = model_for(ModelSettings(name="compact_vit", num_heads=4, drop_path=0.1), 7, (32, 32))
    images = torch.randn(2, 3, 32, 32)
    assert without.state_dict().keys() == plain.state_dict().keys()
    assert torch.equal(without.eval()(images), plain.eval()(images))


def test_the_start_of_a_convit_is_told_when_it_begins(small: Protocol, tmp_path: Path):
    recorder = Recorder()
    _train(_small("convit", small, name="mu_vit"), tmp_path / "run", recorder)
    assert "GPSA in 1 layer on a grid of" in recorder.notes[0]
    assert "1 of 2 heads beyond the kernel, at random" in recorder.notes[0]
