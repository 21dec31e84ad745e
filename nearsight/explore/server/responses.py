"""The types of the server's answers; the page's own are in page/src/types.js."""

from __future__ import annotations

from pydantic import BaseModel

Setting = bool | int | float | str | None


class Curve(BaseModel):
    epoch: list[int]
    train_loss: list[float | None]
    validation_accuracy: list[float | None]
    min_mad: list[float | None]


class RunContent(BaseModel):
    key: str
    name: str
    protocol: str
    model: str
    data: str
    seed: int | None
    status: str
    values: dict[str, list[float]]
    settings: dict[str, Setting]
    curve: Curve | None
    note: str


class ConditionContent(BaseModel):
    value: str
    condition: str
    num_seeds: int
    estimate: list[float]


class EffectContent(BaseModel):
    value: str
    factors: list[str]
    num_seeds: int
    p: float | None
    estimate: list[float]


class ClaimContent(BaseModel):
    id: str
    source: str
    sentence: str
    paper: str
    decision: str
    reason: str
    scale: str
    claimed_scale: str


class StudyContent(BaseModel):
    name: str
    study: str
    question: str
    num_cells: int
    conditions: list[ConditionContent]
    effects: list[EffectContent]
    claims: list[ClaimContent]
    note: str


class NamingContent(BaseModel):
    mostly: float
    max_shift: float
    max_spread: float
    same_map: float
    diffuse: float
    far: float


class MetricContent(BaseModel):
    label: str
    axis: str
    top: float


class ColumnContent(BaseModel):
    name: str
    heading: str
    percent: bool
    digits: int


class Places(BaseModel):
    name: str
    grid: tuple[int, int]
    num_heads: int
    query_prefix: int
    key_prefix: int
    key_rows: list[float]
    key_cols: list[float]
    num_keys: int
    feature_prefix: int | None


class Image(BaseModel):
    name: str
    source: str
    bytes: str


class ExamplesContent(BaseModel):
    schema_version: int
    prefix_names: list[str]
    layers: list[Places]
    images: list[Image]


class EstimatesContent(BaseModel):
    mean: list[list[float]]
    low: list[list[float]] | None = None
    high: list[list[float]] | None = None


class Null(BaseModel):
    name: str
    mad: float
    entropy: float
    self_mass: float


class Spread(BaseModel):
    mean: float
    percentiles: list[float]


class ReadOutContent(BaseModel):
    kind: str
    title: str
    unit: str
    note: str
    layers: list[list[float] | Spread | None]


class Numbers(BaseModel):
    num_images: int
    mad: EstimatesContent
    entropy: EstimatesContent
    self_mass: EstimatesContent
    names: list[list[str]] | None
    null: list[Null]
    read_outs: list[ReadOutContent]


class LookContent(BaseModel):
    epoch: int
    num_images: int
    mad: list[list[float]]
    entropy: list[list[float]]
    self_mass: list[list[float]]
    read_outs: list[ReadOutContent]


class ModelContent(BaseModel):
    key: str
    name: str
    detail: str
    examples: ExamplesContent | None
    numbers: Numbers | None
    looks: list[LookContent]
    note: str


class Contents(BaseModel):
    schema_version: int
    version: str
    title: str
    naming: NamingContent
    metrics: dict[str, MetricContent]
    columns: list[ColumnContent]
    models: list[ModelContent]
    runs: list[RunContent]
    studies: list[StudyContent]
