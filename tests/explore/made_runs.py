"""Run folders with looks while training, studies, and models with parts."""

import json

import numpy as np
import torch
from explore.made_pages import made_images
from report.example_runs import write_model, write_run

from nearsight.explore.images import Images
from nearsight.explore.shown_model import subject_of_model
from nearsight.models.load import create_model

LOOKS = (0, 2, 4)


def made_look(epoch, depth=5, heads=3):
    """Attention that gets closer with every epoch: MAD (5 + layer + head - epoch) / 20."""
    mad = [[(5 + layer + head - epoch) / 20 for head in range(heads)] for layer in range(depth)]
    entropy = [[1.5 * x for x in row] for row in mad]
    mass = [[0.5 - x for x in row] for row in mad]
    found = {"mad": mad, "entropy": entropy, "self_mass": mass}
    return {"num_images": 7, **{name: {"mean": values} for name, values in found.items()}}


def write_looked_run(folder, name="baseline", seed=0, **changes):
    """A run with looks at epochs 0, 2 and 4."""
    write_run(folder, name, seed, **changes)
    lines = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    for line in lines:
        if line["epoch"] in LOOKS:
            line["attention"] = made_look(line["epoch"])
    lines.insert(0, {"schema_version": 1, "epoch": 0, "attention": made_look(0)})
    (folder / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def write_study(folder, cells=2):
    """A study with runs, an effect that excludes 0, one that does not, and two claims."""
    keys = [f"{number:016x}" for number in range(cells)]
    for seed, key in enumerate(keys):
        write_looked_run(folder / "cells" / key, seed=seed)
    study = {"schema_version": 1, "study": "made", "question": "Does it work?", "cells": keys}
    (folder / "study.json").write_text(json.dumps(study))

    def effect(factors, value, low, high):
        estimate = {"value": value, "low": low, "high": high, "n": 3, "over": "seeds"}
        return {"factors": factors, "estimate": estimate, "per_seed": {}, "p": None, "holm_p": None}

    effects = [effect(["cutmix"], -0.2, -0.3, -0.1), effect(["autoaugment"], 0.05, -0.1, 0.2)]
    condition = {"value": "min_mad", "condition": "cutmix on", "mean": 0.1, "sd": 0.01,
                 "low": 0.08, "high": 0.12, "seeds": [0, 1, 2]}  # fmt: skip
    summary = {"schema_version": 1, "study": "made", "cells": [], "conditions": [condition],
               "effects": [{"value": "min_mad", "at": {}, "seeds": [0, 1, 2], "notes": [],
                            "effects": effects}]}  # fmt: skip
    (folder / "summary.json").write_text(json.dumps(summary))
    claim = {
        "direction": "down",
        "margin": None,
        "parts": [],
        "source": "a paper",
        "paper": "-0.3",
        "scale": "here",
        "claimed_scale": "there",
    }
    verdicts = [
        {"id": "one", "sentence": "CutMix lowers it.", "decision": "holds", "reason": "r", **claim},
        {"id": "two", "sentence": "It raises it.", "decision": "open", "reason": "s", **claim},
    ]
    (folder / "claims.json").write_text(json.dumps({"schema_version": 1, "verdicts": verdicts}))
    return folder


def part_subject(kind):
    """A model with GAug ("locat") or GPSA ("convit") on 8x8 patches."""
    torch.manual_seed(3)
    model = create_model(f"mu_{kind}", 7).eval()
    images = Images(["x", "y"], torch.randn(2, 3, 32, 32), [np.zeros((32, 32, 3), np.uint8)] * 2)
    return subject_of_model(kind, model, images, 1)


__all__ = [
    "made_images", "made_look", "part_subject", "write_looked_run", "write_model", "write_study",
]  # fmt: skip
