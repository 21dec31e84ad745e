"""Draw figures about the heads of measured models."""

from __future__ import annotations

from nearsight.report.figures.heads.depth import depth_profiles
from nearsight.report.figures.heads.feature_locality import feature_depth
from nearsight.report.figures.heads.heatmaps import head_heatmaps
from nearsight.report.figures.heads.key_conditions import key_plane
from nearsight.report.figures.heads.plane import layer_bar, mad_entropy_plane
from nearsight.report.figures.heads.ranking import least_distances
from nearsight.report.figures.heads.score_ranking import (
    images_caution,
    ranked_scores,
    score_ranking,
)
from nearsight.report.figures.heads.sorted_heads import axis_top, mad_limit, mad_profiles

__all__ = [
    "axis_top",
    "depth_profiles",
    "feature_depth",
    "head_heatmaps",
    "images_caution",
    "key_plane",
    "layer_bar",
    "least_distances",
    "mad_entropy_plane",
    "mad_limit",
    "mad_profiles",
    "ranked_scores",
    "score_ranking",
]
