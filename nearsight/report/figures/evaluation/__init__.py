"""Draw figures of evaluations: classes, occlusion, layers beside their MAD, and predictions."""

from __future__ import annotations

from collections.abc import Sequence

from nearsight.report.figures.drawing import Drawing
from nearsight.report.figures.evaluation.class_bars import class_bars
from nearsight.report.figures.evaluation.layer_scores import layer_scores, model_scores
from nearsight.report.figures.evaluation.occlusion_curves import occlusion_curves
from nearsight.report.figures.evaluation.shown_predictions import nearest_patches, predicted_masks
from nearsight.report.read import EvaluatedFolder

__all__ = ["evaluation_drawings"]


def evaluation_drawings(folders: Sequence[EvaluatedFolder], number: str = "") -> list[Drawing]:
    """Return every figure for which these evaluations have the numbers."""
    if not folders:
        return []
    found = [
        layer_scores(folders, f"evaluate-layers{number}"),
        model_scores(folders, f"evaluate-models{number}"),
        occlusion_curves(folders, f"evaluate-occlusion{number}"),
        class_bars(folders, f"evaluate-classes{number}"),
        predicted_masks(folders, f"evaluate-masks{number}"),
        nearest_patches(folders, f"evaluate-neighbours{number}"),
    ]
    return [drawing for drawing in found if drawing is not None]
