"""Extract the frozen features of any model that ``measure`` supports, once, into a cache.

A subject is a model or a control that is evaluated. Its features are taken after the block of a
layer, after the final norm or after PRR, and stored in half precision in memory-mapped files.
"""

from __future__ import annotations

from nearsight.evaluate.features.controls import (
    CONTROLS,
    PIXEL_STATISTICS,
    POSITION_ONLY,
    RANDOM_INITIALISATION,
    control_subject,
)
from nearsight.evaluate.features.extraction import (
    Estimated,
    Need,
    class_answers,
    estimate_extraction,
    extract_features,
    image_batches,
)
from nearsight.evaluate.features.feature_cache import (
    RESULTS,
    FeatureCache,
    Features,
    cache_root,
    deciding_facts,
    delete_cache,
    stored_caches,
)
from nearsight.evaluate.features.image_splits import (
    Preparation,
    Split,
    open_labels,
    open_masks,
    resize_labels,
    spread,
)
from nearsight.evaluate.features.subject import (
    Subject,
    open_subject,
    subject_of,
    with_statistics,
)
from nearsight.evaluate.features.taps import PLACES, Extractor, FeatureBatch, Tapped

__all__ = [
    "CONTROLS",
    "PIXEL_STATISTICS",
    "PLACES",
    "POSITION_ONLY",
    "RANDOM_INITIALISATION",
    "RESULTS",
    "Estimated",
    "Extractor",
    "FeatureBatch",
    "FeatureCache",
    "Features",
    "Need",
    "Preparation",
    "Split",
    "Subject",
    "Tapped",
    "cache_root",
    "class_answers",
    "control_subject",
    "deciding_facts",
    "delete_cache",
    "estimate_extraction",
    "extract_features",
    "image_batches",
    "open_labels",
    "open_masks",
    "open_subject",
    "resize_labels",
    "spread",
    "stored_caches",
    "subject_of",
    "with_statistics",
]
