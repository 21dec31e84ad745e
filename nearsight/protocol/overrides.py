"""Protocols as text: ``--set optimizer.lr=3e-4`` and YAML files, validated against the schema."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import yaml
from pydantic import TypeAdapter, ValidationError

from nearsight.core import UserError, suggestion
from nearsight.protocol.presets import PRESETS, assumed_values, preset, value_at
from nearsight.protocol.schema import Protocol
from nearsight.protocol.validation import LONGEST, first_mistake, shorten

MOST_YAML = 2**16  # characters
DEEPEST_YAML = 16


def protocol_from(settings: dict[str, Any]) -> Protocol:
    """Return a protocol made of plain values.

    Raises:
        UserError: If a value is wrong; it names the first one in one sentence.
    """
    try:
        return TypeAdapter(Protocol).validate_python(settings)
    except ValidationError as error:
        path, sentence = first_mistake(error)
        unknown = sentence.startswith("unknown")
        raise UserError(_unknown(path) if unknown else sentence) from None


def override(protocol: Protocol, assignments: Iterable[str]) -> Protocol:
    """Return the protocol with every ``path=value`` applied; values are YAML, typed by the schema.

    >>> override(preset("modern"), ["optimizer.lr=1e-3", "cutmix=null"]).optimizer.lr
    0.001
    """
    settings = asdict(protocol)
    for assignment in assignments:
        path, text = _halves(assignment)
        *parents, last = path.split(".")
        part = settings
        for depth, key in enumerate([*parents, last]):
            if key not in part:
                raise UserError(_unknown(path))
            if depth < len(parents):
                part = _part(part[key], ".".join(parents[: depth + 1]), path)
        part[last] = value = _parsed(text, path)
        if value is True and path in _switches():
            raise UserError(
                f"setting {path} is not true or false; --set {path}={{}} switches it on"
            )
        protocol = protocol_from(settings)
        settings = asdict(protocol)
        if isinstance(value, bool) and not isinstance(value_at(settings, path), bool):
            raise UserError(f"setting {path} is {shorten(text)}, but it is not true or false")
    return protocol


def option_values(assignments: Iterable[str]) -> dict[str, Any]:
    """Return every ``key=value`` as a keyword argument; values are YAML, and 1e-4 is a number too.

    >>> option_values(["reg_tokens=4", "gaussian=false", "init_values=1e-4", "depths=[1, 2]"])
    {'reg_tokens': 4, 'gaussian': False, 'init_values': 0.0001, 'depths': [1, 2]}
    """
    options = {}
    for assignment in assignments:
        key, text = _halves(assignment)
        if not key.isidentifier():
            raise UserError(f"{shorten(assignment)} has no name of an option before the =")
        value = _parsed(text, key)
        if isinstance(value, str):
            with contextlib.suppress(ValueError):  # YAML 1.1 wants a point in 1.0e-4
                value = float(value)
        options[key] = value
    return options


def _halves(assignment: str) -> tuple[str, str]:
    key, equals, text = assignment.partition("=")
    if not equals:
        raise UserError(f"{shorten(assignment)} is not of the form KEY=VALUE")
    return key.strip(), text


def _part(value: Any, name: str, path: str) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    if value is None:
        raise UserError(
            f"{name} is off in this protocol, so {path} cannot be set; "
            f"switch it on with --set {name}={{}} or take a preset that has it"
        )
    raise UserError(_unknown(path))


def _parsed(text: str, path: str) -> Any:
    try:
        return parse_yaml(text)
    except yaml.YAMLError:
        raise UserError(
            f"the value of setting {path}, {shorten(text)}, is neither a plain value nor YAML"
        ) from None


class _Loader(yaml.SafeLoader):
    """Refuse a key that stands twice in a mapping; YAML would take the last one silently."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping of a node."""
        seen = set()
        for key, _ in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else None
            if name is not None and name in seen:
                raise yaml.YAMLError(f"it has the key {shorten(name)} twice in one mapping")
            seen.add(name)
        return super().construct_mapping(node, deep)


def parse_yaml(text: str) -> Any:
    """Parse YAML of limited size and depth, without aliases, which can expand without bound.

    Raises:
        yaml.YAMLError: If the text is not YAML, exceeds the limits, or has a key twice.

    >>> parse_yaml("{a: [1, 2]}")
    {'a': [1, 2]}
    """
    if len(text) > MOST_YAML:
        raise yaml.YAMLError(
            f"it has {len(text):,} characters, more than the {MOST_YAML:,} allowed"
        )
    depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError(f"it has the alias *{event.anchor}; write the value out")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST_YAML:
            raise yaml.YAMLError(f"it is nested more than {DEEPEST_YAML} deep")
    try:
        return yaml.load(text, _Loader)
    except ValueError as error:  # such as a number of too many digits, or a date of month 13
        raise yaml.YAMLError(str(error)) from None


def _unknown(path: str) -> str:
    path = path if len(path) <= LONGEST else f"{path[:LONGEST]}…"
    last = [known for known in _paths() if known.rpartition(".")[2] == path]
    hint = f"; did you mean {' or '.join(last)}?" if last else ""
    hint = hint or suggestion(path, _paths(), most=1, cutoff=0.4)
    return f"unknown setting {path!r}{hint} (nearsight protocols NAME lists all)"


def _paths(settings: type = Protocol) -> list[str]:
    """Return every dotted path that the schema knows, including parts that are off."""
    paths = []
    for name, annotation in get_type_hints(settings).items():
        paths.append(name)
        for kind in (annotation, *get_args(annotation)):
            if isinstance(kind, type) and dataclasses.is_dataclass(kind):
                paths += [f"{name}.{inner}" for inner in _paths(kind)]
    return paths


def _switches() -> list[str]:
    """Return the settings that are a group or None: augmentations and parts of a model."""
    return [path for path in _paths() if any(x.startswith(f"{path}.") for x in _paths())]


def read_protocol(name_or_file: str, data: str, model: str | None = None) -> Protocol:
    """Return a preset by name, or read a YAML file such as ``nearsight protocols NAME`` prints.

    Args:
        name_or_file: The name of a preset, or a path that ends in .yaml or .yml.
        data: The data set that chooses a preset's values; a file keeps its own.
        model: The model of a preset; a file keeps its own.
    """
    if name_or_file in PRESETS or not name_or_file.endswith((".yaml", ".yml")):
        return preset(name_or_file, data, model)
    path = Path(name_or_file)
    if not path.is_file():
        raise UserError(f"there is no file {path}; give a YAML file or the name of a preset")
    try:
        settings = parse_yaml(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(settings, dict):
        raise UserError(f"{path} contains {shorten(settings)} instead of settings of a protocol")
    return protocol_from(settings)


def protocol_yaml(protocol: Protocol) -> str:
    """Return the protocol as YAML, one setting per line, with the values that we assumed marked."""
    assumed = assumed_values(protocol)
    settings = {key: _plain(value) for key, value in asdict(protocol).items()}
    lines: list[str] = []
    parents: list[str] = []
    for line in yaml.safe_dump(settings, sort_keys=False).splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        parents = [*parents[:depth], line.strip().split(":")[0]]
        lines.append(f"{line}  # assumed" if ".".join(parents) in assumed else line)
    return "\n".join(lines) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return list(value) if isinstance(value, tuple) else value


def fitted_warmup(protocol: Protocol) -> tuple[Protocol, str | None]:
    """Shorten a warm-up of more than half the epochs to a tenth of them.

    Returns:
        The protocol, and a note for the user if it was changed.
    """
    if protocol.epochs >= 2 * protocol.warmup_epochs:
        return protocol, None
    warmup = protocol.epochs / 10
    note = (
        f"warm-up shortened from {protocol.warmup_epochs:g} to {warmup:g} epochs, "
        f"a tenth of the {protocol.epochs} epochs"
    )
    return replace(protocol, warmup_epochs=warmup), note
