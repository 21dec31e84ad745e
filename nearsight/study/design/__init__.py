"""What a study consists of: recipes, shared designs, and the plan of its cells."""

from __future__ import annotations

from nearsight.study.design.designs import cutmix_off_and_on, eight, shrunk
from nearsight.study.design.plan import (
    THREADS,
    Cell,
    Software,
    cells_of,
    keep_stored,
    named_files,
    named_hashes,
)
from nearsight.study.design.recipe_file import (
    Condition,
    Level,
    PrimaryContrast,
    Recipe,
    Study,
    factor_text,
    level_text,
    recipe,
    recipes,
)
from nearsight.study.design.settings import protocol_settings
from nearsight.study.design.stages import DEFAULT_STAGES, STAGES, stages_named

__all__ = [
    "DEFAULT_STAGES",
    "STAGES",
    "THREADS",
    "Cell",
    "Condition",
    "Level",
    "PrimaryContrast",
    "Recipe",
    "Software",
    "Study",
    "cells_of",
    "cutmix_off_and_on",
    "eight",
    "factor_text",
    "keep_stored",
    "level_text",
    "named_files",
    "named_hashes",
    "protocol_settings",
    "recipe",
    "recipes",
    "shrunk",
    "stages_named",
]
