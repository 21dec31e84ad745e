"""LocAt's training, written out once more from its paper."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from nearsight.protocol.presets import assumed_values, preset

SHARED = {
    "batch_size": 1024,
    "patience": None,
    "repeats": 1,
    "label_smoothing": 0.1,
    "randaugment": {"num_ops": 2, "magnitude": 9.0, "magnitude_std": 0.5},
    "mixup": {"probability": 1.0, "alpha": 0.8},
    "cutmix": {"probability": 1.0, "alpha": 1.0, "mix_labels": True},
    "autoaugment": None,
    "colorjitter": None,
    "cutout": None,
    "distillation": None,
}


@pytest.mark.parametrize(
    ("name", "data", "epochs", "warmup", "rate"),
    [
        ("locat", "imagenet", 300, 20, 1e-3),
        ("locat-small", "cifar100", 600, 120, 5e-4),
        ("locat-small", "mini-imagenet", 600, 120, 5e-4),
    ],
)
def test_a_preset_has_the_values_of_section_5_1(
    name: str, data: str, epochs: int, warmup: int, rate: float
) -> None:
    found = asdict(preset(name, data))
    assert {key: found[key] for key in SHARED} == SHARED
    assert found["random_erasing"]["probability"] == 0.25
    assert (found["epochs"], found["warmup_epochs"]) == (epochs, warmup)
    rates = found["optimizer"]
    assert (rates["lr"], rates["weight_decay"], rates["clip_norm"]) == (rate, 0.05, 5.0)
    assert (rates["schedule"], rates["warmup_lr"], rates["final_lr"]) == ("triangular", 0.0, 0.0)
    assert found["model"]["image_size"] == 224
    assert found["data"]["image_size"] == (224 if data == "cifar100" else None)
    assert assumed_values(preset(name, data)) == {}


@pytest.mark.parametrize(
    ("model", "rate"),
    [
        ("locatvit_tiny", 0.1), ("vit_tiny_patch16_224", 0.1), ("locatvit_small", 0.2),
        ("vit_base_patch16_224", 0.4), ("locatswin_base", 0.4), ("compact_locat", 0.1),
    ],
)  # fmt: skip
def test_drop_path_goes_with_the_size_of_the_model(model: str, rate: float) -> None:
    found = preset("locat", "imagenet", model).model
    assert (found.name, found.drop_path) == (model, rate)


def test_another_preset_takes_a_model_and_changes_nothing_else() -> None:
    assert preset("modern", "cifar100", "nano").model.name == "nano"
    assert preset("modern", "cifar100", "nano").optimizer == preset("modern").optimizer


def test_data_that_the_paper_does_not_have_are_marked() -> None:
    assert {"epochs", "batch_size"} <= assumed_values(preset("locat-small", "cifar10")).keys()
    assert assumed_values(preset("locat", "folder:/photos")) == {}
