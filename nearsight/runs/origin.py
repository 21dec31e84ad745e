"""Record where a result came from: the command, the commit, versions and hardware."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
import tomllib
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any


def _output_of(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def commit(package: Path | None = None) -> str | None:
    """Return the commit of nearsight's own repository, with '+' if files were changed since.

    The result is None if nearsight was installed without its repository, even if the folder of the
    installation lies inside the repository of another project.
    """
    package = package or Path(__file__).resolve().parents[1]
    root = package.parent
    top = _output_of("git", "-C", str(root), "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() != root or not _is_ours(root / "pyproject.toml"):
        return None
    name = _output_of("git", "-C", str(root), "rev-parse", "--short=12", "HEAD")
    changed = _output_of(
        "git", "--no-optional-locks", "-C", str(root), "status", "--porcelain", "--", str(package)
    )
    return f"{name}+" if name and changed else name


def _is_ours(project: Path) -> bool:
    if not project.is_file():
        return False
    return tomllib.loads(project.read_text()).get("project", {}).get("name") == "nearsight"


def cpu_name() -> str:
    """Return the model name of this machine's CPU."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def hardware(device: str, processes: int = 1) -> dict[str, Any]:
    """Return what a stage ran on: device, processes, threads and CPU.

    Libraries that LD_PRELOAD loads before torch are named too, because they can change the last
    digits of the results.
    """
    import torch

    facts = {"device": device, "cpu": cpu_name(), "threads": torch.get_num_threads()}
    if preloaded := os.environ.get("LD_PRELOAD", "").replace(":", " ").split():
        facts["preloaded"] = " ".join(Path(library).name for library in preloaded)
    if device.startswith("cuda"):
        facts["gpu"] = torch.cuda.get_device_name(device)
    return {**facts, "processes": processes}


def native_code() -> dict[str, Any]:
    """Return whether compiled code was used and which; it changes the last digits of results."""
    from nearsight.native import status

    return asdict(status())


def provenance(device: str, processes: int = 1) -> dict[str, Any]:
    """Return where a result came from: command, commit, versions, hardware and time."""
    names = ("nearsight", "torch", "timm", "numpy", "pydantic")
    versions = {name: metadata.version(name) for name in names}
    program = "nearsight" if Path(sys.argv[0]).name in ("nearsight", "__main__.py") else sys.argv[0]
    return {
        "command": shlex.join([Path(program).name, *sys.argv[1:]]),
        "commit": commit(),
        "versions": {"python": platform.python_version(), **versions},
        "hardware": hardware(device, processes),
        "native": native_code(),
        "started": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
