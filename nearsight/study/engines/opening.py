"""Open an engine by name: local, ray or slurm."""

from __future__ import annotations

from pathlib import Path

from nearsight.core import UserError
from nearsight.study.design import Cell
from nearsight.study.engines.base import Engine, EngineOptions


def open_engine(
    options: EngineOptions, out: Path, data_root: Path, cells: list[Cell], workers: int | None
) -> Engine:
    """Open an engine by name; the caller closes it.

    Args:
        options: The name of the engine and its options.
        out: The study folder.
        data_root: The folder of data sets.
        cells: The cells that will run, for their needs.
        workers: The number of cells to run at a time, or None for the engine's default.

    Raises:
        UserError: If the extra of the engine is not installed, or its cluster cannot be used.
    """
    try:
        if options.name == "ray":
            from nearsight.study.engines.ray_engine import RayEngine

            return RayEngine(options, data_root, cells, workers)
        if options.name == "slurm":
            from nearsight.study.engines.slurm_engine import SlurmEngine

            return SlurmEngine(options, out, data_root, cells)
    except ImportError:
        raise UserError(
            f"--engine {options.name} needs a package that is not installed; run "
            f"pip install '.[{options.name}]' in nearsight's folder"
        ) from None
    from nearsight.study.engines.local import LocalEngine

    return LocalEngine(data_root)
