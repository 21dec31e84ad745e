"""Define every metric once, for streams of rows and for whole attention, with its conventions."""

from __future__ import annotations

from nearsight.measure.metrics.choice import (
    Chosen,
    chosen_metrics,
    mathematics,
    metric_of_attention,
)
from nearsight.measure.metrics.convention import PAPER, Convention, convention_of, convert_estimates
from nearsight.measure.metrics.definition import (
    FeatureMetric,
    RowMetric,
    Sum,
    accept_arrays,
    patch_attention,
)
from nearsight.measure.metrics.distance import (
    distance_score,
    mad_without_self,
    mean_attention_distance,
    nonlocality,
)
from nearsight.measure.metrics.diversity import head_diversity
from nearsight.measure.metrics.entropy import attention_entropy
from nearsight.measure.metrics.estimates import Estimates
from nearsight.measure.metrics.features import (
    Missing,
    block_of,
    carried_tokens,
    class_feature,
    feature_values,
    num_class_tokens,
    patch_features,
)
from nearsight.measure.metrics.head_kinds import head_names
from nearsight.measure.metrics.information import mutual_information
from nearsight.measure.metrics.mass import radius_mass, ring_mass, self_mass, sink_mass
from nearsight.measure.metrics.offset import mean_offset, offset_spread
from nearsight.measure.metrics.position import MeanMap

__all__ = [
    "PAPER",
    "Chosen",
    "Convention",
    "Estimates",
    "FeatureMetric",
    "MeanMap",
    "Missing",
    "RowMetric",
    "Sum",
    "accept_arrays",
    "attention_entropy",
    "block_of",
    "carried_tokens",
    "chosen_metrics",
    "class_feature",
    "convention_of",
    "convert_estimates",
    "distance_score",
    "feature_values",
    "head_diversity",
    "head_names",
    "mad_without_self",
    "mathematics",
    "mean_attention_distance",
    "mean_offset",
    "metric_of_attention",
    "mutual_information",
    "nonlocality",
    "num_class_tokens",
    "offset_spread",
    "patch_attention",
    "patch_features",
    "radius_mass",
    "ring_mass",
    "self_mass",
    "sink_mass",
]
