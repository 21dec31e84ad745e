"""Open an engine by name: local, ray or slurm."""

from __future__ import annotations

from pathlib import Path

from nearsight.core import UserError
from nearsight.study.design import Cell
from nearsight.study.engines.base import Engine, EngineOptions


def open_engine(
    options: EngineOptions, out: Path, data_root: Path, cells: list[Cell], workers: int | None
) -> Engine:
    """Open an engine by name. Close it when done. UserError if its extra is not installed."""
    try:
        if options.name == "ray":
            from nearsight.study.engines.ray_engine import RayEngine

            return RayEngine(options, data_root, cells, workers)
        if options.name == "slurm":
            from nearsight.study.engines.slurm_engine import SlurmEngine

            return SlurmEngine(options, out, data_root, cells)
    except ImportError:
        raise UserError(
            f"{options.name} is not installed: run "
            f"pip install '.[{options.name}]' in nearsight's folder"
        ) from None
    from nearsight.study.engines.local import LocalEngine

    return LocalEngine(data_root)
