"""Two processes train and measure what one does, also where the last batch does not divide evenly.

One torchrun goes through all jobs, because starting processes is slow.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from train.recording import Recorder

from nearsight.measure.folders.run_folder import measure_run
from nearsight.measure.profile.values import VALUES, read_values
from nearsight.protocol.schema import (
    Dino,
    Distillation,
    GpsaSettings,
    ModelSettings,
    Optimizer,
    Protocol,
)
from nearsight.runs.files import WEIGHTS, read_log
from nearsight.train.loop import train_run

pytestmark = [pytest.mark.training, pytest.mark.processes]

TEACHER = Distillation(teacher="test_resnet", weights="random", image_size=32)
FROZEN = ModelSettings(name="mu_convit", gpsa=GpsaSettings(train_gates=False))
DINO = Dino(hidden=13, bottleneck=11, outputs=31, num_local=2, local_size=4, teacher_momentum=0.7)
# 99 samples in batches of 7: the last batch holds 1 sample, so that one of the processes has none
JOBS = {
    "float64": ({"precision": "float64", "epochs": 2, "measure_every": 2}, "ddp"),
    "sharded": ({"precision": "float64", "epochs": 2, "measure_every": 2}, "fsdp"),
    "float32": ({"epochs": 2}, "ddp"),
    "distilled": ({"precision": "float64", "epochs": 1, "distillation": TEACHER}, "ddp"),
    "dino": (
        {"precision": "float64", "epochs": 2, "dino": DINO, "cutmix": None, "label_smoothing": 0.0},
        "ddp",
    ),
    "frozen": ({"precision": "float64", "epochs": 1, "model": FROZEN}, "ddp"),
    "frozen and sharded": ({"precision": "float64", "epochs": 1, "model": FROZEN}, "fsdp"),
}


@pytest.fixture(scope="module")
def folders(
    image_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Path, Path, list[float]]]:
    """Per job: the folder of one process, that of two, and the step losses of one."""
    from nearsight.protocol.presets import preset
    from nearsight.protocol.schema import DataSettings

    root = tmp_path_factory.mktemp("processes")
    base = replace(
        preset("modern", f"folder:{image_folder}"),
        data=DataSettings(name=f"folder:{image_folder}", image_size=16),
        model=ModelSettings(name="mu_vit"),
        batch_size=7,
        warmup_epochs=0.5,
        optimizer=Optimizer(lr=1e-3, clip_norm=1.0),
    )
    jobs, found = [], {}
    for name, (changes, parallel) in JOBS.items():
        model = replace(base.model, distilled="distillation" in changes)
        protocol: Protocol = replace(base, **{"model": model} | changes)
        alone, two, recorder = root / f"{name}-1", root / f"{name}-2", Recorder()
        train_run(protocol, alone, device="cpu", data_root=root, reporter=recorder)
        found[name] = (alone, two, recorder.losses)
        jobs.append(
            {
                "protocol": asdict(protocol),
                "out": str(two),
                "parallel": parallel,
                "data_root": str(root),
            }
        )
    file = root / "jobs.json"
    file.write_text(json.dumps(jobs))
    script = Path(__file__).with_name("recording.py")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"]
    done = subprocess.run(
        [*command, "--standalone", str(script), str(file)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return found


@pytest.mark.parametrize("name", [name for name in JOBS if name != "float32"])
def test_in_float64_the_weights_agree_to_1e_9(
    folders: dict[str, tuple[Path, Path, list[float]]], name: str
):
    alone, two, _ = folders[name]
    one, other = load_file(alone / WEIGHTS), load_file(two / WEIGHTS)
    assert one.keys() == other.keys()
    for key, weight in one.items():
        assert weight.dtype == torch.float64
        torch.testing.assert_close(other[key], weight, rtol=0, atol=1e-9)


def test_in_float32_the_first_20_losses_and_the_weights_agree_to_1e_5(
    folders: dict[str, tuple[Path, Path, list[float]]],
):
    alone, two, losses = folders["float32"]
    others = json.loads((two / "losses.json").read_text())
    assert len(losses) == len(others) == 30
    assert others[:20] == pytest.approx(losses[:20], abs=1e-5)
    one, other = load_file(alone / WEIGHTS), load_file(two / WEIGHTS)
    for key, weight in one.items():
        rows = torch.ones(len(weight), dtype=torch.bool)
        if key.endswith("qkv.bias"):  # the true gradient of a key bias is zero: AdamW amplifies
            rows[len(weight) // 3 : 2 * len(weight) // 3] = False
        torch.testing.assert_close(other[key][rows], weight[rows], rtol=0, atol=1e-5)


def log_of(folder: Path) -> list[dict]:
    return [line.contents() for line in read_log(folder)]


def test_both_logs_tell_the_same_story(folders: dict[str, tuple[Path, Path, list[float]]]):
    alone, two, _ = folders["float64"]
    for one, other in zip(log_of(alone), log_of(two), strict=True):
        one.pop("attention", None), other.pop("attention", None)
        assert other == pytest.approx(one, abs=1e-9)


@pytest.mark.parametrize("name", ["float64", "sharded"])
def test_attention_looked_at_while_training_is_the_same_in_two_processes(
    folders: dict[str, tuple[Path, Path, list[float]]], name: str
):
    alone, two, _ = folders[name]
    logs = (log_of(folder) for folder in (alone, two))
    one, other = (log[-1]["attention"] for log in logs)
    for metric in ("mad", "entropy", "self_mass"):
        for mine, yours in zip(one[metric]["mean"], other[metric]["mean"], strict=True):
            assert yours == pytest.approx(mine, abs=1e-9)


def test_two_processes_measure_what_one_measures_in_the_order_of_the_images(
    folders: dict[str, tuple[Path, Path, list[float]]],
):
    alone, two, _ = folders["float64"]
    measure_run(alone, data_root=alone.parent)
    (one, names), (other, names_of_two) = (read_values(x / VALUES) for x in (alone, two))
    assert names == names_of_two
    for mine, yours in zip(one.mad.values, other.mad.values, strict=True):
        assert yours == pytest.approx(mine, abs=1e-9)
