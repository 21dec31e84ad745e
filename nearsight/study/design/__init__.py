"""Design studies: recipes, designs that recipes share, and the plan of the cells."""

from __future__ import annotations

from nearsight.study.design.designs import (
    BACKBONES,
    BRIEF_MEASURE,
    PLAIN,
    briefly,
    convit_protocol,
    crossed,
    cutmix_off_and_on,
    eight,
    locat_protocol,
    shrunk,
)
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
    SCALES,
    Condition,
    Level,
    PrimaryContrast,
    Recipe,
    Scale,
    Study,
    factor_text,
    level_text,
    recipe,
    recipes,
)
from nearsight.study.design.settings import protocol_settings
from nearsight.study.design.stages import DEFAULT_STAGES, STAGES, stages_named

__all__ = [
    "BACKBONES",
    "BRIEF_MEASURE",
    "DEFAULT_STAGES",
    "PLAIN",
    "SCALES",
    "STAGES",
    "THREADS",
    "Cell",
    "Condition",
    "Level",
    "PrimaryContrast",
    "Recipe",
    "Scale",
    "Software",
    "Study",
    "briefly",
    "cells_of",
    "convit_protocol",
    "crossed",
    "cutmix_off_and_on",
    "eight",
    "factor_text",
    "keep_stored",
    "level_text",
    "locat_protocol",
    "named_files",
    "named_hashes",
    "protocol_settings",
    "recipe",
    "recipes",
    "shrunk",
    "stages_named",
]
