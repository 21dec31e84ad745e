"""Watch every attention call inside a model without editing the model.

``AttentionCapture`` shows each call to a function of the caller's choice. ``evaluation_mode``
prepares a model for being watched, and the ``refuse_*`` functions explain why a model cannot be
measured.
"""

from __future__ import annotations

from nearsight.measure.capture.interception import AttentionCall, AttentionCapture, Place
from nearsight.measure.capture.observation import eager, evaluation_mode, image_batches, inner_model
from nearsight.measure.capture.refusals import refuse_scripted, refuse_unseen, unseen_reason
from nearsight.measure.capture.tracking import over_keys

__all__ = [
    "AttentionCall",
    "AttentionCapture",
    "Place",
    "eager",
    "evaluation_mode",
    "image_batches",
    "inner_model",
    "over_keys",
    "refuse_scripted",
    "refuse_unseen",
    "unseen_reason",
]
