"""SIGKILL at random moments on `mu` and `shapes`: the bytes are those of a run never killed.

NEARSIGHT_KILLS sets how many kills; 3 by default, because every start costs seconds.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nearsight.runs.files import LOG, WEIGHTS, read_record

pytestmark = [pytest.mark.training, pytest.mark.processes]

COMMAND = [sys.executable, "-m", "nearsight", "train", "baseline+cutmix", "--device", "cpu"]
SETTINGS = ["data.validation_fraction=0.9", "epochs=4", "warmup_epochs=1", "batch_size=131"]


def _command(out: Path, root: Path) -> list[str]:
    sets = [word for setting in SETTINGS for word in ("--set", setting)]
    data = ["--data", "shapes", "--model", "mu", "--data-root", str(root)]
    return [*COMMAND, *data, *sets, "--out", str(out)]


def _started(out: Path, root: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    quiet = subprocess.DEVNULL
    return subprocess.Popen(_command(out, root), env=environment, stdout=quiet, stderr=quiet)


def test_a_run_killed_at_random_moments_ends_with_the_same_bytes(tmp_path: Path):
    began = time.monotonic()
    assert _started(tmp_path / "whole", tmp_path).wait(timeout=600) == 0
    length = time.monotonic() - began
    draw = random.Random(7)
    wanted, kills, rounds = int(os.environ.get("NEARSIGHT_KILLS", "3")), 0, 0
    while kills < wanted:
        out, rounds = tmp_path / f"killed-{rounds}", rounds + 1
        process = _started(out, tmp_path)
        while process.poll() is None:
            try:
                left = draw.uniform(0.1, 1.0) * length if kills < wanted else 600
                process.wait(timeout=left)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                kills += 1
                process = _started(out, tmp_path)
        assert process.returncode == 0
        assert read_record(out).is_finished
        for name in (WEIGHTS, LOG):
            assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
