"""The presets as a table: what each changes against Baseline."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.table import Table

from nearsight.protocol.presets import PRESETS, assumed_values, preset


def preset_changes(name: str, data: str) -> list[str]:
    """The settings of a preset that differ from Baseline, as text; '*' marks our assumptions."""
    protocol, baseline = preset(name, data), asdict(preset("baseline", data))
    assumed = assumed_values(protocol)
    changes = []
    for key, value in asdict(protocol).items():
        if key != "name" and value != baseline[key]:
            changes.append(f"{key}: {_short(key, value, assumed)}")
    return changes


def _short(key: str, value: Any, assumed: dict[str, Any]) -> str:
    if not isinstance(value, dict):
        return f"{value}*" if key in assumed else str(value)
    return ", ".join(
        f"{name} {inner}{'*' if f'{key}.{name}' in assumed else ''}"
        for name, inner in value.items()
    )


def preset_table(data: str) -> Table:
    """A row per preset: its name and what it changes."""
    baseline = preset("baseline", data)
    assumed = assumed_values(baseline)

    def marked(path: str, value: Any) -> str:
        return f"{value:g}*" if path in assumed else f"{value:g}"

    table = Table(
        title=f"Protocols on {data}",
        caption=(
            f"All: AdamW, lr {marked('optimizer.lr', baseline.optimizer.lr)}, weight decay "
            f"{marked('optimizer.weight_decay', baseline.optimizer.weight_decay)}, batch "
            f"{marked('batch_size', baseline.batch_size)}, at most "
            f"{marked('epochs', baseline.epochs)} epochs, patience "
            f"{marked('patience', baseline.patience)}, warm-up "
            f"{marked('warmup_epochs', baseline.warmup_epochs)}, random crop (padding "
            f"{marked('crop_padding', baseline.crop_padding)}) and flip. * assumed by us"
        ),
        caption_justify="left",
        width=80,
    )
    table.add_column("preset", no_wrap=True)
    table.add_column("against baseline")
    for name in PRESETS:
        table.add_row(name, "\n".join(preset_changes(name, data)) or "–")
    return table
