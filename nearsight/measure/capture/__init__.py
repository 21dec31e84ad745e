"""See every attention call inside a model without editing the model."""

from __future__ import annotations

from nearsight.measure.capture.interception import AttentionCall, AttentionCapture, Place
from nearsight.measure.capture.observation import eager, evaluating, image_batches, inner_model
from nearsight.measure.capture.refusals import refuse_scripted, refuse_unseen, unseen_reason
from nearsight.measure.capture.tracking import over_keys

__all__ = [
    "AttentionCall",
    "AttentionCapture",
    "Place",
    "eager",
    "evaluating",
    "image_batches",
    "inner_model",
    "over_keys",
    "refuse_scripted",
    "refuse_unseen",
    "unseen_reason",
]
