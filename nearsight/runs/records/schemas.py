"""Generate the JSON schemas of all files, which docs/schemas holds, from their records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import TaggedUnionSchema

from nearsight.runs.records.causal_record import CAUSAL_FILE
from nearsight.runs.records.diff_record import DIFF_FILE
from nearsight.runs.records.evaluate_record import EVALUATE_FILE
from nearsight.runs.records.examples_record import EXAMPLES_FILE
from nearsight.runs.records.localise_record import LOCALISE_FILE
from nearsight.runs.records.log_records import LOG_FILE, TIMING_FILE
from nearsight.runs.records.measure_record import MEASURE_FILE
from nearsight.runs.records.run_record import RUN_FILE
from nearsight.runs.records.stored import StoredFile
from nearsight.runs.records.study_records import (
    CELL_FILE,
    CLAIMS_FILE,
    FAILED_FILE,
    STUDY_FILE,
    SUMMARY_FILE,
)

FILES: tuple[StoredFile[Any], ...] = (
    RUN_FILE, LOG_FILE, TIMING_FILE, MEASURE_FILE, EXAMPLES_FILE, CAUSAL_FILE, DIFF_FILE,
    EVALUATE_FILE, LOCALISE_FILE, STUDY_FILE, CELL_FILE, FAILED_FILE, SUMMARY_FILE, CLAIMS_FILE,
)  # fmt: skip
DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _Schema(GenerateJsonSchema):
    """Generate ``anyOf`` instead of ``oneOf`` for a value of several kinds.

    Our code tells the kinds apart by their keys; by the schema alone, several may fit.
    """

    def tagged_union_schema(self, schema: TaggedUnionSchema) -> dict[str, Any]:
        union = super().tagged_union_schema(schema)
        if "oneOf" in union:
            union["anyOf"] = union.pop("oneOf")
        return union


def schemas() -> dict[str, str]:
    """Return the text of every schema by its file name, such as ``measure.schema.json``."""
    texts = {}
    for file in FILES:
        schema = file.adapter.json_schema(schema_generator=_Schema)
        what = "a line of " if file.name.endswith("l") else ""
        titled = {"$schema": DIALECT, "title": f"{what}{file.name}"} | schema
        name = f"{file.name.partition('.')[0]}.schema.json"
        texts[name] = json.dumps(titled, indent=1, ensure_ascii=False) + "\n"
    return texts


def write_schemas(folder: Path) -> list[Path]:
    """Write every schema into a folder, and return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in schemas().items():
        (folder / name).write_text(text)
    return [folder / name for name in schemas()]
