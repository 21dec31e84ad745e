"""Train a model: the loop over epochs, and what a run needs to be stopped and resumed exactly."""

from __future__ import annotations

from nearsight.train.loop import TRAIN_STAGE, train_run
from nearsight.train.preparation import prepare
from nearsight.train.step import Stepper

__all__ = ["TRAIN_STAGE", "Stepper", "prepare", "train_run"]
