"""examples.json: attention and features of a few images (see ``nearsight.runs.examples``)."""

from __future__ import annotations

from typing import Literal

from nearsight.runs.records.stored import Stored, StoredFile


class PlacesRecord(Stored):
    """Where the queries and keys of a layer are."""

    name: str
    grid: tuple[int, int]
    num_heads: int
    query_prefix: int
    key_prefix: int
    key_rows: list[float]
    key_cols: list[float]
    num_keys: int
    feature_prefix: int | None


class ExampleRecord(Stored):
    """One image: its picture as a data address, and its block of bytes in base64."""

    name: str
    source: str
    bytes: str


class ExamplesRecord(Stored):
    """examples.json."""

    schema_version: Literal[1]
    prefix_names: list[str]
    layers: list[PlacesRecord]
    images: list[ExampleRecord]


EXAMPLES_FILE: StoredFile[ExamplesRecord] = StoredFile(
    name="examples.json", kind=ExamplesRecord, repair="run nearsight measure {folder} again"
)
