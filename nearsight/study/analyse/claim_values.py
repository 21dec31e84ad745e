"""Numbers of a run that only claims ask for, from its measure.json and train.jsonl.

min_entropy          entropy of the most concentrated head
layer1_entropy       mean entropy of layer 1's heads
mad_rise             mean MAD of the last layer's heads minus that of layer 1
nonlocality          mean attended distance of all heads, in patches
last_locality_score  likeness of neighbouring patches after the last layer
last_cls_similarity  likeness of patches and class token after the last layer
early_nonlocality    change of nonlocality in the first EARLY epochs, of the layer with the largest
gpsa_nonlocality     change of nonlocality in training, of the GPSA layer with the smallest
gate_change          change of the mean gate in training, of the GPSA layer with the largest

Each is absent where it was not measured. The last three need looks from before the first step on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

EARLY = 5  # epochs; the paper says "the first few"


def claim_values(
    measure: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    """By name; ``lines`` of train.jsonl."""
    summary, last = measure["summary"], measure["layers"][-1]
    by_layer = summary["layer_mean_mad"]
    found: dict[str, float | None] = {
        "min_entropy": summary["min_entropy"]["value"],
        "layer1_entropy": summary["layer_mean_entropy"][0]["value"],
        "mad_rise": by_layer[-1]["value"] - by_layer[0]["value"],
        "nonlocality": summary.get("mean_nonlocality", {}).get("value"),
        "last_locality_score": last.get("locality_score", {}).get("mean"),
        "last_cls_similarity": last.get("cls_similarity", {}).get("mean"),
        **_while_training(lines),
    }
    return {name: float(x) for name, x in found.items() if x is not None}


def _while_training(lines: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    looks = {line["epoch"]: line["attention"] for line in lines if line.get("attention")}
    if 0 not in looks or len(looks) < 2:
        return {}
    first, last = looks[0], looks[max(looks)]
    found: dict[str, float] = {}
    early = [epoch for epoch in looks if 0 < epoch <= EARLY]
    if early and _far(first):
        found["early_nonlocality"] = max(
            after - before for before, after in zip(_far(first), _far(looks[max(early)]))
        )
    gated = [i for i, entry in enumerate(first.get("gpsa", [])) if entry]
    if gated and _far(first):
        found["gpsa_nonlocality"] = min(_far(last)[i] - _far(first)[i] for i in gated)
    gates = [(first["gpsa"][i]["gate"], last["gpsa"][i]["gate"]) for i in gated]
    if gates and all(before and after for before, after in gates):
        found["gate_change"] = max(fmean(after) - fmean(before) for before, after in gates)
    return found


def _far(look: Mapping[str, Any]) -> list[float]:
    """Nonlocality of every layer."""
    return [entry["value"] for entry in look.get("layer_mean_nonlocality") or []]
