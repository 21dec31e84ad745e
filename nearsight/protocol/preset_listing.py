"""Make tables of the presets that show what each one changes relative to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from nearsight.protocol.deit import FAMILIES, LAYERS, RECIPES
from nearsight.protocol.dino_preset import DINO
from nearsight.protocol.locat_presets import LOCAT
from nearsight.protocol.presets import EIGHT, assumed_values, preset, spoken_name

WIDTH = 80
DEIT = tuple(name for name in RECIPES if name.startswith("deit"))
CONVIT = tuple(name for name in RECIPES if name.startswith("convit"))


def preset_changes(name: str, data: str, against: str = "baseline") -> list[str]:
    """List the settings of a preset that differ from another preset; '*' marks our assumptions."""
    protocol = preset(name, data)
    return _changes(
        asdict(protocol), asdict(preset(against, data)), "", assumed_values(protocol).keys()
    )


def _changes(new: dict[str, Any], old: dict[str, Any], prefix: str, assumed: Any) -> list[str]:
    changes = []
    for key, value in new.items():
        path = f"{prefix}{key}"
        if path == "name" or value == old[key]:
            continue
        if isinstance(value, dict) and isinstance(old[key], dict):
            changes += _changes(value, old[key], f"{path}.", assumed)
        else:
            changes.append(f"{path}: {_text(path, value, assumed)}")
    return changes


def _text(path: str, value: Any, assumed: Any) -> str:
    """Return a value as text; of a group of settings, all values that are not None."""
    if isinstance(value, dict):
        present = {name: inner for name, inner in value.items() if inner is not None}
        return ", ".join(
            f"{x} {_text(f'{path}.{x}', inner, assumed)}" for x, inner in present.items()
        )
    text = "off" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
    return f"{text}*" if path in assumed else text


def preset_tables(data: str) -> list[Table]:
    """Return one table per group of presets, with a row for each: its name and what it changes."""
    convit = _table(f"ConViT on {data}", "convit", CONVIT, data, first_against="deit")
    for start, path in FAMILIES.items():
        which = f"N; figure 8 has {LAYERS[0]} to {LAYERS[-1]}" if path.endswith("layers") else "N"
        convit.add_row(f"{start}N", f"{path}: {which}")
    return [
        _table(f"Protocols on {data}", "baseline", tuple(EIGHT), data, _shared(data)),
        _table(f"The DeiT recipe on {data}", "deit", DEIT, data, first_against="baseline"),
        convit,
        _table(f"LocAt's training on {data}", "locat", LOCAT, data, first_against="deit"),
        _table(f"DINO's training on {data}", DINO, (DINO,), data, first_against="baseline"),
    ]


def _table(
    title: str,
    against: str,
    names: Sequence[str],
    data: str,
    caption: str | None = None,
    first_against: str | None = None,
) -> Table:
    """Return a table of presets and what each changes relative to the preset ``against``.

    The row of ``against`` itself shows what it changes relative to ``first_against``.
    """
    table = Table(
        title=title, title_justify="left", caption=caption, caption_justify="left", width=WIDTH
    )
    table.add_column("preset", no_wrap=True)
    table.add_column(f"against {against}")
    for name in names:
        changes = preset_changes(name, data, against)
        if name == against and first_against:
            changes = [f"against {first_against}:", *preset_changes(name, data, first_against)]
        if (spoken := spoken_name(name)) != name:
            changes = [f"{spoken}:", *changes]
        table.add_row(name, "\n".join(changes) or "–", end_section=name == against)
    return table


def _shared(data: str) -> str:
    """Describe the settings that the eight protocols have in common."""
    baseline = preset("baseline", data)
    assumed = assumed_values(baseline)

    def marked(path: str, value: Any) -> str:
        return f"{value:g}*" if path in assumed else f"{value:g}"

    return (
        f"All: AdamW, lr {marked('optimizer.lr', baseline.optimizer.lr)}, weight decay "
        f"{marked('optimizer.weight_decay', baseline.optimizer.weight_decay)}, batch "
        f"{marked('batch_size', baseline.batch_size)}, at most "
        f"{marked('epochs', baseline.epochs)} epochs, patience "
        f"{marked('patience', baseline.patience)}, warm-up "
        f"{marked('warmup_epochs', baseline.warmup_epochs)}, random crop (padding "
        f"{marked('crop_padding', baseline.crop_padding)}) and flip. * assumed by us"
    )
