"""Run the workers of cells on this machine, on a Ray cluster, or with Slurm."""

from __future__ import annotations

from nearsight.study.engines.base import (
    EXIT_FAILED,
    POLL_SECONDS,
    Ending,
    Engine,
    EngineOptions,
    Job,
    slurm_parameters,
)
from nearsight.study.engines.opening import open_engine

__all__ = [
    "EXIT_FAILED",
    "POLL_SECONDS",
    "Ending",
    "Engine",
    "EngineOptions",
    "Job",
    "open_engine",
    "slurm_parameters",
]
