"""Watch every attention call inside a model without editing the model.

``AttentionCapture`` passes each call to a function of the caller's choice. ``evaluation_mode``
prepares a model for that and restores it afterwards. The ``refuse_*`` functions raise an error that
explains why a model cannot be measured.
"""

from __future__ import annotations

from nearsight.measure.capture.interception import (
    AttentionCall,
    AttentionCapture,
    Place,
    causal_mask,
)
from nearsight.measure.capture.observation import eager, evaluation_mode, image_batches, inner_model
from nearsight.measure.capture.refusals import refuse_scripted, refuse_unseen, unseen_reason
from nearsight.measure.capture.tracking import over_keys

__all__ = [
    "AttentionCall",
    "AttentionCapture",
    "Place",
    "causal_mask",
    "eager",
    "evaluation_mode",
    "image_batches",
    "inner_model",
    "over_keys",
    "refuse_scripted",
    "refuse_unseen",
    "unseen_reason",
]
