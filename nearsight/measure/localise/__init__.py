"""Make the attention of a model local without training it (``ns.localise``, ``--localise``)."""

from __future__ import annotations

from nearsight.measure.localise.kinds import IDENTITY, Locality, read_locality
from nearsight.measure.localise.lever import localise

__all__ = ["IDENTITY", "Locality", "localise", "read_locality"]
