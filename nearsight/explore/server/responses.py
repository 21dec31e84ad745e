"""Define the types of the server's answers. page/src/types.js defines the same for the page."""

from __future__ import annotations

from pydantic import BaseModel

Setting = bool | int | float | str | None


class Curve(BaseModel):
    """The learning curve of a run, one value per shown epoch."""

    epoch: list[int]
    train_loss: list[float | None]
    validation_accuracy: list[float | None]
    min_mad: list[float | None]


class RunContent(BaseModel):
    """A row of the table of runs."""

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
    """A value of a study for one condition: mean, low and high."""

    value: str
    condition: str
    num_seeds: int
    estimate: list[float]


class EffectContent(BaseModel):
    """The effect of one or more factors of a study on a value."""

    value: str
    factors: list[str]
    num_seeds: int
    p: float | None
    estimate: list[float]


class ClaimContent(BaseModel):
    """A claim of a paper and what a study says about it."""

    id: str
    source: str
    sentence: str
    paper: str
    decision: str
    reason: str
    scale: str
    claimed_scale: str


class StudyContent(BaseModel):
    """The results of one study."""

    name: str
    study: str
    question: str
    num_cells: int
    conditions: list[ConditionContent]
    effects: list[EffectContent]
    claims: list[ClaimContent]
    note: str


class NamingContent(BaseModel):
    """The thresholds by which heads get their names."""

    mostly: float
    max_shift: float
    max_spread: float
    same_map: float
    diffuse: float
    far: float


class MetricContent(BaseModel):
    """The label and the axis of a metric."""

    label: str
    axis: str
    top: float


class ColumnContent(BaseModel):
    """A column of the table of runs."""

    name: str
    heading: str
    percent: bool
    digits: int


class Places(BaseModel):
    """Where the queries and keys of one layer lie on the grid of patches."""

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
    """An example image: its name, a data URL to display it, and its encoded attention."""

    name: str
    source: str
    bytes: str


class ExamplesContent(BaseModel):
    """The example images of a model, in the format of examples.json."""

    schema_version: int
    prefix_names: list[str]
    layers: list[Places]
    images: list[Image]


class EstimatesContent(BaseModel):
    """A metric of every head, [layer][head], with its interval if there is one."""

    mean: list[list[float]]
    low: list[list[float]] | None = None
    high: list[list[float]] | None = None


class Null(BaseModel):
    """The values that metrics have without learning."""

    name: str
    mad: float
    entropy: float
    self_mass: float


class Spread(BaseModel):
    """The mean and percentiles of a read-out that has many values."""

    mean: float
    percentiles: list[float]


class ReadOutContent(BaseModel):
    """What a part of a model, such as a gate, learned in each layer."""

    kind: str
    title: str
    unit: str
    note: str
    layers: list[list[float] | Spread | None]


class Numbers(BaseModel):
    """The measured numbers of all heads of a model."""

    num_images: int
    mad: EstimatesContent
    entropy: EstimatesContent
    self_mass: EstimatesContent
    names: list[list[str]] | None
    null: list[Null]
    read_outs: list[ReadOutContent]


class LookContent(BaseModel):
    """The numbers of all heads, measured at one epoch during training."""

    epoch: int
    num_images: int
    mad: list[list[float]]
    entropy: list[list[float]]
    self_mass: list[list[float]]
    read_outs: list[ReadOutContent]


class ModelContent(BaseModel):
    """One model of the page."""

    key: str
    name: str
    detail: str
    examples: ExamplesContent | None
    numbers: Numbers | None
    looks: list[LookContent]
    note: str


class Contents(BaseModel):
    """All data of the page."""

    schema_version: int
    version: str
    title: str
    naming: NamingContent
    metrics: dict[str, MetricContent]
    columns: list[ColumnContent]
    models: list[ModelContent]
    runs: list[RunContent]
    studies: list[StudyContent]
