"""List the stages that a study may run, one line each; a recipe chooses among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nearsight.core import UserError, suggestion
from nearsight.evaluate import CAUSAL_STAGE, EVALUATE_STAGE
from nearsight.measure.folders import MEASURE_STAGE
from nearsight.runs import Stage
from nearsight.train import TRAIN_STAGE

STAGES: dict[str, Stage] = {
    stage.name: stage
    for stage in (
        TRAIN_STAGE,
        MEASURE_STAGE,
        CAUSAL_STAGE,
        EVALUATE_STAGE,
    )
}
DEFAULT_STAGES = (TRAIN_STAGE.name, MEASURE_STAGE.name)


def stages_named(names: Sequence[str]) -> list[Stage]:
    """Return the stages of these names, in the order in which they run.

    Raises:
        UserError: If a name is unknown or given twice, or training is missing.
    """
    for name in names:
        if name not in STAGES:
            raise UserError(
                f"there is no stage {name!r}; the stages are {', '.join(STAGES)}"
                f"{suggestion(name, STAGES)}"
            )
    if len(set(names)) < len(names):
        raise UserError(f"the stages {', '.join(names)} name one twice; name every stage once")
    if TRAIN_STAGE.name not in names:
        raise UserError(
            f"the stages of the study lack {TRAIN_STAGE.name}, which makes its runs; add it"
        )
    return [stage for stage in STAGES.values() if stage.name in names]


def complete_stages(
    names: Sequence[str], settings: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return, for every stage by its name, all settings that decide numbers.

    Args:
        names: The stages of a study.
        settings: The settings that differ from the defaults, by the name of the stage.

    Raises:
        UserError: If there are settings for a stage that the study does not run.
    """
    for name in settings:
        if name not in names:
            raise UserError(
                f"the study has settings for the stage {name!r}, which it does not run; "
                f"its stages are {', '.join(names)}"
            )
    return {
        stage.name: stage.complete(settings.get(stage.name, {})) for stage in stages_named(names)
    }
