"""causal.json: the accuracy that a run loses when its heads attend elsewhere."""

from __future__ import annotations

from typing import Literal

from nearsight.runs.records.run_record import ProvenanceRecord
from nearsight.runs.records.stored import Stored, StoredFile


class CausalLayerRecord(Stored):
    """Where the heads of a layer attend before anything is changed."""

    layer: int
    name: str
    grid: tuple[int, int]
    inside: list[float]  # share of each head's attention inside the window
    uniform_inside: float


class MeanMapRecord(Stored):
    """The images that the mean map is averaged over."""

    split: str
    num_images: int


class LossRecord(Stored):
    """The accuracy lost by one change of some heads."""

    heads: str  # "2.1": head 1 of layer 2, "layer 2", "all heads"; counted from 1
    change: Literal["inside", "outside", "mean"]
    value: float
    low: float
    high: float
    num_images: int
    num_spoilt: int
    num_mended: int
    p: float
    p_holm: float


class CausalRecord(Stored):
    """causal.json."""

    schema_version: Literal[1]
    window: int
    num_images: int
    num_available: int
    mean_map: MeanMapRecord | None = None  # None: an older file, averaged over the test images
    image_seed: int
    split: str
    accuracy: float
    layers: list[CausalLayerRecord]
    lost: list[LossRecord]
    remarks: list[str]
    seconds: float
    provenance: ProvenanceRecord


CAUSAL_FILE: StoredFile[CausalRecord] = StoredFile(
    name="causal.json",
    kind=CausalRecord,
    repair="run nearsight study causal {folder} again",
    absent="{folder} has no causal.json: run nearsight study causal {folder} first",
)
