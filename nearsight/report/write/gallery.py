"""Choose the figures that a report shows for a family of runs or models, and their order."""

from __future__ import annotations

from nearsight.report.figures.drawing import Drawing
from nearsight.report.figures.evaluation import evaluation_drawings
from nearsight.report.figures.heads import (
    depth_profiles,
    feature_depth,
    head_heatmaps,
    key_plane,
    least_distances,
    mad_entropy_plane,
    mad_profiles,
)
from nearsight.report.figures.maps import example_maps
from nearsight.report.figures.parts import part_drawings, part_training_drawings
from nearsight.report.figures.study import causal_drawings
from nearsight.report.figures.training import (
    emergence,
    learning_curves,
    locality_curves,
    nonlocality_training,
    onset_curves,
    sample_efficiency,
)
from nearsight.report.read import Family, read_evaluations


def family_drawings(family: Family, families: list[Family]) -> list[Drawing]:
    """Return the figures of a family in their order.

    If the report has several families, the keys of the figures end in the number of the family.
    """
    number = "" if len(families) == 1 else f"-{families.index(family) + 1}"
    name, scope, seeds = family.name, family.scope_text, family.seeds_text
    subtitle = f"{name} · {scope} · patches only, rows renormalised, distance in grid diagonals"
    found = [
        sample_efficiency(
            family, f"sample-efficiency{number}", f"{name} · {seeds} · equally many images seen"
        ),
        least_distances(family, f"ranking{number}", subtitle),
        depth_profiles(family, f"depth{number}", subtitle),
        mad_profiles(family, f"mad-profiles{number}", subtitle),
        key_plane(family, f"key-plane{number}", subtitle),
        mad_entropy_plane(family, f"mad-entropy-plane{number}", subtitle),
        head_heatmaps(family, f"head-heatmaps{number}", subtitle),
        feature_depth(family, f"features{number}", f"{name} · {scope} · outputs of blocks"),
    ]
    drawings = [*(drawing for drawing in found if drawing), *part_drawings(family, number)]
    drawings += example_maps(family, f"examples{number}", f"{name} · the patch in the middle")
    if all(run.log for condition in family.conditions for run in condition.runs):
        drawings += _while_training(family, number)
    drawings += causal_drawings(family, f"causal{number}")
    folders = [run.path for condition in family.conditions for run in condition.runs]
    return [*drawings, *evaluation_drawings(read_evaluations(folders), number)]


def _while_training(family: Family, number: str) -> list[Drawing]:
    """Return the figures that need train.jsonl: learning, locality and parts over epochs."""
    validation = f"{family.first.trained.data.num_validation:,} validation images"
    words = f"{family.name} · {validation} · {family.seeds_text}"
    looked = f"{family.name} · {family.seeds_text}"
    found = [
        learning_curves(family, f"learning-curves{number}", words),
        locality_curves(family, f"locality{number}", looked),
        emergence(family, f"emergence{number}", looked),
        onset_curves(family, f"onset{number}", looked),
        nonlocality_training(family, f"nonlocality{number}", looked),
    ]
    parts = part_training_drawings(family, number)
    return [*(drawing for drawing in found if drawing), *parts]
