"""Small finished and measured run folders, as train and measure would leave them."""

import json
from dataclasses import asdict, replace

import torch
from runs.made_records import DATA, MODEL, PROVENANCE, RESULT, model_contents, run_contents

from nearsight.measure.folders.measure_contents import measurement
from nearsight.measure.layout.tokens import LayerFacts
from nearsight.measure.metrics.estimates import Estimates
from nearsight.measure.profile.profile import Profile
from nearsight.models.layers.grid import Grid
from nearsight.protocol.presets import assumed_values, preset

NUM_IMAGES, NUM_EPOCHS, GRID = 11, 5, Grid(3, 5)
FROM_FILE = {"from": "file", "file": "w.safetensors", "sha256": "0123456789abcdef"}


def example_profile(seed, cutmix, depth, heads, grid):
    """Metrics per image: with CutMix the first layer has heads close to 0, otherwise none."""
    draw = torch.Generator().manual_seed(97 * seed + depth)
    mad, entropy, mass = [], [], []
    for layer in range(depth):
        low = 0.02 if cutmix and layer == 0 else 0.3
        centre = torch.linspace(low, 0.45, heads).double() + 0.005 * seed
        noise = 0.01 * torch.randn(3, NUM_IMAGES, heads, generator=draw).double()
        mad.append((centre + noise[0]).clamp(0))
        entropy.append((centre / 0.5 + noise[1]).clamp(0, 1))
        mass.append((0.5 - centre + noise[2]).clamp(0, 1))
    layers = tuple(
        LayerFacts(
            name=f"blocks.{layer}.attn", kind="SelfAttention", grid=grid, num_heads=heads,
            num_prefix=1, num_keys=grid.num_patches, num_windows=1, proof_error=1e-7, note=None,
        )
        for layer in range(depth)
    )  # fmt: skip
    metrics = {"mad": mad, "entropy": entropy, "self_mass": mass}
    estimates = {name: Estimates([x.numpy() for x in values]) for name, values in metrics.items()}
    return Profile(layers, (), estimates)


def write_run(
    folder, name="baseline", seed=0, data="shapes", model="mu_vit", depth=5, heads=3,
    grid=GRID, **changes,
):  # fmt: skip
    protocol = replace(preset(name, data), epochs=NUM_EPOCHS, **changes)
    protocol = replace(protocol, model=replace(protocol.model, name=model))
    cutmix = protocol.cutmix is not None
    accuracy = (0.7 if cutmix else 0.6) + 0.01 * seed
    scores = {"validation_accuracy": accuracy, "test_accuracy": accuracy}
    older = {key: value for key, value in RESULT.items() if key != "test_top5_accuracy"}
    record = run_contents(
        protocol=asdict(protocol),
        assumed=sorted(assumed_values(protocol)),
        seed=seed,
        data=DATA | {"name": data},
        model=MODEL | {"name": model},
        provenance=PROVENANCE | {"command": f"nearsight train {name} --seed {seed}"},
        result=older | scores,
    )
    measured = measurement(example_profile(seed, cutmix, depth, heads, grid)) | {
        "num_available": 1009,
        "data": {"name": data, "hash": "00112233445566aa"},
        "seconds": 2.5,
    }
    lines = [
        {
            "schema_version": 1, "epoch": epoch, "train_loss": 2.0 / epoch,
            "clean_train_loss": 2.0 / epoch,
            "validation_loss": 2.1 / epoch,
            "validation_accuracy": accuracy - 0.1 * abs(epoch - 4),
        }
        for epoch in range(1, NUM_EPOCHS + 1)
    ]  # fmt: skip
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(record))
    (folder / "measure.json").write_text(json.dumps(measured))
    (folder / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def write_pair(root, seeds=(0,)):
    """Baseline with and without CutMix, once per seed."""
    return [
        write_run(root / f"{name}-{seed}", name, seed)
        for name in ("baseline", "baseline+cutmix")
        for seed in seeds
    ]


def write_model(
    folder, name="vit_made", seed=0, weights=None, depth=5, heads=3, grids=(GRID,), data="pictures",
    **changes,
):  # fmt: skip
    """A measured model that was never trained here; ``grids`` are those of its stages."""
    profile = example_profile(seed, True, depth, heads, grids[0])
    stages = [grids[layer * len(grids) // depth] for layer in range(depth)]
    layers = tuple(replace(x, grid=grid) for x, grid in zip(profile.layers, stages))
    images = {"name": data, "hash": "8899aabbccddeeff"}
    record = model_contents(name, weights=weights or FROM_FILE)
    record["notes"] = ["pos_embed was resampled bicubically from 8x8 to 3x5 patches."]
    record["data"] |= images | {"num_images": NUM_IMAGES}
    record["preprocessing"]["text"] = (
        "timm's configuration: short side to 248 (bicubic), middle 224x224"
    )
    record["provenance"] = {
        "command": f"nearsight measure {name} --images {data}", "commit": "abc1234",
        "versions": {"python": "3.11.9"}, "hardware": {"device": "cpu"},
        "started": "2026-11-15T22:00:00Z",
    }  # fmt: skip
    profile = replace(profile, layers=layers, skipped=(("head.pool", "one query"),))
    measured = measurement(profile) | {"num_available": 101, "data": images, "seconds": 2.5}
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(record))
    (folder / "measure.json").write_text(json.dumps(measured | changes))
    return folder
