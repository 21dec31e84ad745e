"""Read and write one kind of file, and explain what is wrong with a damaged one.

A file is described by a pydantic model. Keys that a model does not know are kept: they reappear in
``model_extra`` and in ``contents``, so a file of a newer nearsight survives being read and exported
by an older one. Types are strict: a number written as text is an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from nearsight.core import UserError, append_bytes, write_bytes

T = TypeVar("T")
V = TypeVar("V")
LONGEST = 60  # characters of a wrong value that an error shows
VERSION = "schema_version"
TRUE_VERSION = re.compile(rb'"schema_version"\s*:\s*(true|false)')
KINDS = {
    "float_type": "a number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "string_type": "text",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
}  # what a value should be, by pydantic's type of error


class Stored(BaseModel):
    """An object of a file: immutable, with strict types, and with the keys it does not know."""

    model_config = ConfigDict(
        extra="allow", frozen=True, strict=True, ser_json_inf_nan="constants", allow_inf_nan=True
    )

    def contents(self) -> dict[str, Any]:
        """Return the contents as plain values for JSON, with only the keys that the file has."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


@dataclass(frozen=True)
class StoredFile(Generic[T]):
    """A file of a run or study folder.

    Args:
        name: Its name, such as ``measure.json``.
        kind: The model of the file, or of each of its lines if it ends in ``.jsonl``.
        repair: What a user can do about a damaged file; ``{folder}`` is the folder it is in.
        absent: The error if there is no such file; with ``{folder}`` and ``{name}``.
        versions: The values of ``schema_version`` that can be read.
    """

    name: str
    kind: Any
    repair: str
    absent: str = "there is no {name} in {folder}"
    versions: tuple[int, ...] = (1,)

    @cached_property
    def adapter(self) -> TypeAdapter[T]:
        """Return the pydantic validator of the file's model."""
        return TypeAdapter(self.kind)

    def read(self, folder: Path) -> T:
        """Read the file of a folder.

        Raises:
            UserError: If the file is missing, cut off, of an unknown version, or incomplete.
        """
        path = Path(folder) / self.name
        if not path.is_file():
            if not Path(folder).exists():
                raise UserError(f"there is no folder {folder}")
            raise UserError(self.absent.format(folder=folder, name=self.name))
        return self._parse(path.read_bytes(), path)

    def read_lines(self, folder: Path) -> list[T]:
        """Read the complete lines of a .jsonl file; a last line that is cut off is left out.

        A missing file has no lines.
        """
        path = Path(folder) / self.name
        if not path.is_file():
            return []
        whole = path.read_bytes().split(b"\n")[:-1]
        return [self._parse(text, path, f"line {n}: ") for n, text in enumerate(whole, 1)]

    def write(self, folder: Path, contents: Mapping[str, Any]) -> Path:
        """Write the file completely or not at all."""
        path = Path(folder) / self.name
        write_bytes(path, self.encode(contents))
        return path

    def encode(self, contents: Mapping[str, Any]) -> bytes:
        """Return the bytes of the file after checking that they can be read back."""
        text = json.dumps(contents, indent=1, allow_nan=False) + "\n"
        self.adapter.validate_json(text)
        return text.encode()

    def record(self, contents: Mapping[str, Any]) -> T:
        """Make a record from contents that do not come from a file."""
        return self.adapter.validate_json(json.dumps(contents))

    def append(self, folder: Path, contents: Mapping[str, Any]) -> None:
        """Add a line to the end of a .jsonl file and wait until it is on the disk."""
        append_bytes(Path(folder) / self.name, self._line(contents))

    def write_lines(self, folder: Path, lines: Iterable[Mapping[str, Any]]) -> None:
        """Write all lines of a .jsonl file, replacing those it had."""
        write_bytes(Path(folder) / self.name, b"".join(map(self._line, lines)))

    def _line(self, contents: Mapping[str, Any]) -> bytes:
        text = json.dumps(contents) + "\n"
        self.adapter.validate_json(text)
        return text.encode()

    def damaged(self, folder: Path, field: str, problem: str) -> UserError:
        """Return an error that names this file of a folder, the wrong field, and what to do."""
        path, repair = Path(folder) / self.name, self.repair.format(folder=folder)
        return UserError(f"{path} is damaged: {field} {problem}; {repair}")

    def needed(self, folder: Path, field: str, value: V | None) -> V:
        """Return a value that may be None in the file, or raise UserError if it is.

        Args:
            folder: The folder of the file, for the error.
            field: The name of the value in the file, for the error.
            value: The value.
        """
        if value is None:
            raise self.damaged(folder, field, "is missing")
        return value

    def part(self, kind: type[V], value: Any, folder: Path, field: str) -> V:
        """Validate a value that this file stores for another room, such as a read-out of GPSA.

        Args:
            kind: The type of the value.
            value: The value as plain JSON.
            folder: The folder of the file, for the error.
            field: The name of the value in the file, for the error.

        Raises:
            UserError: If the value is not of that type.
        """
        try:
            return TypeAdapter(kind).validate_json(json.dumps(value))
        except ValidationError as error:
            inside, problem = _deepest_error(error, value)
            raise self.damaged(folder, f"{field}.{inside}".rstrip("."), problem) from None

    def _parse(self, text: bytes, path: Path, where: str = "") -> T:
        if TRUE_VERSION.search(text):  # pydantic takes true for the number 1
            raise self.damaged(path.parent, f"{where}{VERSION}", "should be a whole number")
        try:
            return self.adapter.validate_json(text)
        except ValidationError as error:
            invalid = error
        errors = invalid.errors(include_url=False)
        if errors[0]["type"] == "json_invalid":
            repair = self.repair.format(folder=path.parent)
            cause = errors[0]["ctx"]["error"]
            raise UserError(f"{path} is damaged: {where}it is not JSON ({cause}); {repair}")
        raw = json.loads(text)
        if isinstance(raw, dict) and raw.get(VERSION) not in self.versions:
            known = " or ".join(map(str, self.versions))
            raise UserError(
                f"{path} has {VERSION} {raw.get(VERSION)!r}, but this version of nearsight reads "
                f"{known}; install the version that wrote it, or a newer one"
            )
        field, problem = _deepest_error(invalid, raw)
        raise self.damaged(path.parent, f"{where}{field or 'its content'}", problem)


def _deepest_error(invalid: ValidationError, raw: Any) -> tuple[str, str]:
    """Return the field of the deepest error, and what is wrong with it.

    If a value may be of several kinds, pydantic lists an error for each of them. We report the
    error for the kind that fits furthest into the value, because that kind was probably meant.
    """
    errors = [(_keys_to(error, raw), error) for error in invalid.errors(include_url=False)]
    (steps, value), error = max(errors, key=lambda x: len(x[0][0]))
    field = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    if error["type"] == "missing":
        return field.lstrip("."), "is missing"
    if error["type"] not in KINDS:
        return field.lstrip("."), f"is wrong ({error['msg'].removeprefix('Value error, ')})"
    shown = json.dumps(value)
    shown = shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}…"
    return field.lstrip("."), f"should be {KINDS[error['type']]}, but it is {shown}"


def _keys_to(error: ErrorDetails, raw: Any) -> tuple[list[str | int], Any]:
    """Return the keys that lead to an error in the file, and the value found there.

    Pydantic's path also contains the names of kinds, which are left out. The names that we give to
    kinds are in angle brackets, so that they differ from all keys.
    """
    steps: list[str | int] = []
    for number, step in enumerate(error["loc"], 1):
        known = range(len(raw)) if isinstance(raw, list) else raw if isinstance(raw, dict) else ()
        if step in known:
            raw = raw[step]
            steps.append(step)
        elif number == len(error["loc"]) and error["type"] == "missing":
            steps.append(step)
    return steps, raw
