"""Change, read and write protocols as text: ``--set optimizer.lr=3e-4`` and YAML files."""

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
    """Make a protocol of plain values, such as those that a JSON or YAML file holds.

    Raises:
        UserError: If a setting is unknown or its value is wrong; the message is about the first.
    """
    try:
        return TypeAdapter(Protocol).validate_python(settings)
    except ValidationError as error:
        path, sentence = first_mistake(error)
        unknown = sentence.startswith("unknown")
        raise UserError(_unknown_setting(path) if unknown else sentence) from None


def override(protocol: Protocol, assignments: Iterable[str]) -> Protocol:
    """Apply assignments ``path=value`` to a protocol; the values are YAML.

    Raises:
        UserError: If an assignment has another form, a setting is unknown, or a value is wrong.

    >>> override(preset("modern"), ["optimizer.lr=1e-3", "cutmix=null"]).optimizer.lr
    0.001
    """
    settings = asdict(protocol)
    for assignment in assignments:
        path, text = _split(assignment)
        *parents, last = path.split(".")
        part = settings
        for depth, key in enumerate([*parents, last]):
            if key not in part:
                raise UserError(_unknown_setting(path))
            if depth < len(parents):
                part = _group(part[key], ".".join(parents[: depth + 1]), path)
        part[last] = value = _parse_value(text, path)
        if value is True and path in _switches():
            raise UserError(
                f"setting {path} is a group of settings and cannot be true; switch it on with "
                f"--set {path}={{}}"
            )
        protocol = protocol_from(settings)
        settings = asdict(protocol)
        if isinstance(value, bool) and not isinstance(value_at(settings, path), bool):
            raise UserError(
                f"setting {path} is {shorten(text)}, but it takes a number or text; "
                "`nearsight protocols NAME` shows the values of a preset"
            )
    return protocol


def option_values(assignments: Iterable[str]) -> dict[str, Any]:
    """Convert assignments ``key=value`` to keyword arguments; the values are YAML.

    Numbers may be written as 1e-4, which YAML itself would read as text.

    Raises:
        UserError: If an assignment has another form, or its key is not a name of Python.

    >>> option_values(["reg_tokens=4", "gaussian=false", "init_values=1e-4", "depths=[1, 2]"])
    {'reg_tokens': 4, 'gaussian': False, 'init_values': 0.0001, 'depths': [1, 2]}
    """
    options = {}
    for assignment in assignments:
        key, text = _split(assignment)
        if not key.isidentifier():
            raise UserError(
                f"{shorten(assignment)} needs the name of an option before the =, "
                "for example reg_tokens=4"
            )
        value = _parse_value(text, key)
        if isinstance(value, str):
            with contextlib.suppress(ValueError):  # YAML 1.1 wants a point in 1.0e-4
                value = float(value)
        options[key] = value
    return options


def _split(assignment: str) -> tuple[str, str]:
    """Return what stands before and after the "=" of an assignment."""
    key, equals, text = assignment.partition("=")
    if not equals:
        raise UserError(f"{shorten(assignment)} is not of the form KEY=VALUE")
    return key.strip(), text


def _group(value: Any, name: str, path: str) -> dict[str, Any]:
    """Return the settings of a group that a path goes through, or raise if there are none."""
    if isinstance(value, dict):
        return value
    if value is None:
        raise UserError(
            f"{name} is off in this protocol, so {path} cannot be set; "
            f"switch it on with --set {name}={{}} or choose a preset that has it"
        )
    raise UserError(_unknown_setting(path))


def _parse_value(text: str, path: str) -> Any:
    try:
        return parse_yaml(text)
    except yaml.YAMLError:
        raise UserError(
            f"the value of setting {path} is not valid YAML: {shorten(text)}; "
            "write text with special characters in quotes"
        ) from None


class _Loader(yaml.SafeLoader):
    """Load YAML, but reject a mapping that has a key twice; PyYAML would silently keep the last."""

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


def _unknown_setting(path: str) -> str:
    """Return the sentence about a setting that does not exist, with the nearest that do."""
    path = path if len(path) <= LONGEST else f"{path[:LONGEST]}…"
    last = [known for known in _paths() if known.rpartition(".")[2] == path]
    hint = f"; did you mean {' or '.join(last)}?" if last else ""
    hint = hint or suggestion(path, _paths(), most=1, cutoff=0.4)
    return f"unknown setting {path!r}{hint} (`nearsight protocols NAME` lists all settings)"


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
    """Return the paths of all groups of settings, such as augmentations and parts of a model."""
    return [path for path in _paths() if any(x.startswith(f"{path}.") for x in _paths())]


def read_protocol(name_or_file: str, data: str, model: str | None = None) -> Protocol:
    """Return a preset by name, or read a YAML file in the form of ``nearsight protocols NAME``.

    Args:
        name_or_file: The name of a preset, or a path that ends in .yaml or .yml.
        data: The data set that chooses a preset's values; a file keeps its own.
        model: The model to train instead of the preset's own; a file keeps its own.

    Raises:
        UserError: If there is no such preset or file, or the file holds no valid protocol.
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
        raise UserError(
            f"{path} contains {shorten(settings)} instead of the settings of a protocol; write it "
            "in the form that `nearsight protocols NAME` prints"
        )
    return protocol_from(settings)


def protocol_yaml(protocol: Protocol) -> str:
    """Return the protocol as YAML, one setting per line, and mark the values that we assumed."""
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
