"""Make the attention of a model local without training it: the lever behind ``ns.localise``."""

from __future__ import annotations

from nearsight.measure.localise.lever import localise
from nearsight.measure.localise.setting import IDENTITY, Locality, read_locality

__all__ = ["IDENTITY", "Locality", "localise", "read_locality"]
