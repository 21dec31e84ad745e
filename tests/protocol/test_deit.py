"""The DeiT recipe and ConViT's ablations, written out once more from the papers."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from nearsight.core.errors import UserError
from nearsight.protocol import GpsaSettings, ResizedCrop
from nearsight.protocol.deit import LAYERS, RECIPES
from nearsight.protocol.fraction import at_fraction
from nearsight.protocol.presets import assumed_values, preset

FOLDER = "folder:/photos"
# table 3: (gates trained, started as a convolution, GPSA layers, attention trained)
TABLE_3 = {
    "convit": (True, True, None, True),
    "convit-gates": (False, True, None, True),
    "convit-convolution": (True, False, None, True),
    "convit-gates-convolution": (False, False, None, True),
    "convit-gpsa": (True, True, 0, True),
    "convit-attention": (True, True, None, False),
    "convit-attention-convolution": (True, False, None, False),
}
LEFT_OUT = {
    "randaugment": ("randaugment", None),
    "mixup": ("mixup", None),
    "cutmix": ("cutmix", None),
    "randomerasing": ("random_erasing", None),
    "labelsmoothing": ("label_smoothing", 0.0),
    "repeats": ("repeats", 1),
}


def test_deit_on_an_image_folder_has_the_values_of_the_paper() -> None:
    deit = asdict(preset("deit", FOLDER))
    assert deit["randaugment"] == {"num_ops": 2, "magnitude": 9.0, "magnitude_std": 0.5}
    assert deit["mixup"] == {"probability": 1.0, "alpha": 0.8}
    assert deit["cutmix"] == {"probability": 1.0, "alpha": 1.0, "mix_labels": True}
    assert deit["random_erasing"]["probability"] == 0.25
    assert (deit["label_smoothing"], deit["repeats"], deit["model"]["drop_path"]) == (0.1, 3, 0.1)
    assert (deit["epochs"], deit["patience"], deit["warmup_epochs"]) == (300, None, 5)
    assert (deit["batch_size"], deit["optimizer"]["lr"]) == (1024, 1e-3)  # 5e-4 x batch / 512
    assert deit["optimizer"]["weight_decay"] == 0.05
    assert deit["optimizer"]["decayed"] == "matrices"
    assert (deit["optimizer"]["warmup_lr"], deit["optimizer"]["final_lr"]) == (1e-6, 1e-5)
    assert deit["resized_crop"] == asdict(ResizedCrop())
    assert (deit["autoaugment"], deit["colorjitter"], deit["cutout"]) == (None, None, None)
    assert assumed_values(preset("deit", FOLDER)) == {}


@pytest.mark.parametrize("data", ["cifar10", "cifar100", "tiny-imagenet", "shapes"])
def test_on_small_images_the_crop_is_padded_and_what_is_ours_is_marked(data: str) -> None:
    deit = preset("deit", data)
    assert (deit.resized_crop, deit.crop_padding) == (None, 4)
    assert deit.optimizer.lr == pytest.approx(5e-4 * deit.batch_size / 512)
    ours = {"epochs", "batch_size", "optimizer.lr", "crop_padding"}
    assert assumed_values(deit).keys() == ours | ({"warmup_epochs"} if data == "shapes" else set())


@pytest.mark.parametrize("part", LEFT_OUT)
def test_a_part_of_deit_is_left_out_alone(part: str) -> None:
    key, value = LEFT_OUT[part]
    name = f"deit-{part}"
    assert preset(name) == replace(preset("deit"), name=name, **{key: value})


def test_deit_without_drop_path_changes_the_model_only() -> None:
    deit = preset("deit")
    model = replace(deit.model, drop_path=0.0)
    assert preset("deit-droppath") == replace(deit, name="deit-droppath", model=model)


@pytest.mark.parametrize("data", ["cifar100", FOLDER])
def test_the_wider_models_have_their_rate_and_batch(data: str) -> None:
    plus = preset("deit_plus", data)
    assert (plus.optimizer.lr, plus.batch_size) == (4e-4, 512)
    assert not {"optimizer.lr", "batch_size"} & assumed_values(plus).keys()


@pytest.mark.parametrize("name", TABLE_3)
def test_the_rows_of_table_3_change_gpsa_and_nothing_else(name: str) -> None:
    gates, convolution, layers, attention = TABLE_3[name]
    gpsa = GpsaSettings(
        layers=layers, convolution=convolution, train_gates=gates, train_attention=attention
    )
    deit = preset("deit")
    model = replace(deit.model, name="compact_convit", gpsa=gpsa)
    assert preset(name) == replace(deit, name=name, model=model)


def test_psa_adds_its_scores_before_the_softmax() -> None:
    gpsa = preset("convit+psa").model.gpsa
    assert gpsa == GpsaSettings(mixing="summed")


def test_figure_8_is_a_family_of_names() -> None:
    found = [preset(f"convit+layers={number}") for number in LAYERS]
    assert [protocol.model.gpsa for protocol in found] == [
        GpsaSettings(layers=number) for number in range(13)
    ]
    sharp = preset("convit+strength=0.5", "shapes")
    assert (sharp.name, sharp.model.gpsa) == ("convit+strength=0.5", GpsaSettings(strength=0.5))
    assert assumed_values(sharp).keys() == assumed_values(preset("deit", "shapes")).keys()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("convit+layers=x", "'convit\\+layers=x' needs a number after the =, not 'x'"),
        ("convit+layers=-1", "setting layers: .* greater than or equal to 0, got -1"),
        ("convit+layers=1.5", "setting layers: .* got 1.5"),
        ("convit+strength=0", "setting strength: .* greater than 0, got 0"),
        ("convit+layer=3", "no preset 'convit\\+layer=3'; did you mean convit\\+layers=N"),
        ("deit-plus", "no preset 'deit-plus'; did you mean deit_plus"),
    ],
)
def test_a_wrong_name_of_the_family_is_refused_in_one_line(name: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence) as refusal:
        preset(name)
    assert type(refusal.value) is UserError
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", [*RECIPES, "convit+layers=3"])
def test_a_recipe_at_a_fraction_keeps_its_marks(name: str) -> None:
    whole, part = preset(name), at_fraction(preset(name), 0.05)
    assert (part.name, part.epochs, part.warmup_epochs) == (f"{name}@5%", 6000, 100)
    assert assumed_values(part).keys() == assumed_values(whole).keys()
