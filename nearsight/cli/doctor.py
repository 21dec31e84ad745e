"""Define the subcommand ``nearsight doctor``, which describes this installation."""

from __future__ import annotations

import os
import platform
import re
import textwrap
from importlib import metadata
from typing import Any

from nearsight.cli.shared import Result, examples

EXAMPLE = examples("nearsight doctor", "nearsight doctor --json > doctor.json")
WIDTH, INDENT = 80, 18


def show_doctor() -> Result:
    """Describe this installation, for a bug report.

    Prints the versions of nearsight and its libraries, whether the compiled library is loaded, the
    threads and devices, the data folder, and the optional extras that are installed.
    """
    found = installation()
    for name, text in _lines(found):
        print(textwrap.fill(f"{name:{INDENT}}{text}", WIDTH, subsequent_indent=" " * INDENT))
    return Result(content=found)


def installation() -> dict[str, Any]:
    """Gather the facts about this installation that determine what works, and how fast."""
    from nearsight import __version__
    from nearsight.runs import commit

    required, extras = _requirements()
    return {
        "versions": {
            "nearsight": __version__,
            "python": platform.python_version(),
            **{name: _version(name) for name in required},
        },
        "commit": commit(),
        "platform": platform.platform(),
        **_torch_facts(),
        "extras": {
            extra: {name: _version(name) for name in names} for extra, names in extras.items()
        },
        "environment": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith("NEARSIGHT_") or name == "OMP_NUM_THREADS"
        },
    }


def _torch_facts() -> dict[str, Any]:
    """Return the facts that need torch, or the error if torch cannot be imported."""
    try:
        import torch

        from nearsight.data.sets import data_root, list_datasets
        from nearsight.runs import hardware, native_code
    except (ImportError, OSError) as error:
        return {"torch_error": str(error)}
    cpu, root = hardware("cpu"), data_root()
    cuda = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return {
        "native": native_code(),
        "threads": {"torch": cpu["threads"], "processors": os.cpu_count()},
        "devices": {"cpu": cpu["cpu"], "cuda": cuda, "mps": torch.backends.mps.is_available()},
        "data": {
            "root": str(root),
            "exists": root.is_dir(),
            "sets": [row.name for row in list_datasets() if row.state != "missing"],
        },
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _requirements() -> tuple[list[str], dict[str, list[str]]]:
    """Return the packages that nearsight needs, and those of each optional extra."""
    try:
        listed = metadata.requires("nearsight") or []
    except metadata.PackageNotFoundError:  # a checkout that was not installed
        listed = ["torch", "timm", "numpy"]
    required: list[str] = []
    extras: dict[str, list[str]] = {}
    for text in listed:
        name, extra = re.match(r"[\w.-]+", text), re.search(r"extra == ['\"]([\w.-]+)['\"]", text)
        assert name is not None
        (extras.setdefault(extra[1], []) if extra else required).append(name[0])
    return required, extras


def _lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the name and text of every line to print."""
    versions = dict(found["versions"])
    commit = f", commit {found['commit']}" if found["commit"] else ""
    lines = [("nearsight", f"{versions.pop('nearsight')}{commit}")]
    lines += [(name, version or "missing") for name, version in versions.items()]
    lines.append(("platform", found["platform"]))
    if "torch_error" in found:
        lines.append(("torch", f"cannot be imported: {found['torch_error']}"))
    else:
        lines += _torch_lines(found)
    for extra, packages in found["extras"].items():
        missing = [name for name, version in packages.items() if version is None]
        text = f"missing {', '.join(missing)}" if missing else "installed"
        lines.append((f"extra {extra}", text))
    lines += [("environment", f"{name}={value}") for name, value in found["environment"].items()]
    return lines


def _torch_lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    native, threads, devices = found["native"], found["threads"], found["devices"]
    data = found["data"]
    there = f"has {', '.join(data['sets'])}" if data["exists"] else "does not exist yet"
    if native["loaded"]:
        state = f"loaded, built by {native['compiler']}, uses {native['instructions']}"
    else:
        state = f"not loaded ({native['reason']}); torch does its work"
    others = [f"cuda:{number} {name}" for number, name in enumerate(devices["cuda"])]
    others += ["mps"] if devices["mps"] else []
    return [
        ("native library", state),
        ("threads", f"{threads['torch']} on {threads['processors']} processors"),
        ("devices", "; ".join([f"cpu {devices['cpu']}", *others])),
        ("data", f"{data['root']} {there}"),
    ]
