"""Describe how a paper trained: the settings that a verdict checks, and our assumptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nearsight.protocol import Protocol, assumed_values, at_fraction, preset
from nearsight.study.design import Level, level_text, protocol_settings

Settings = Mapping[str, Level]
Expected = Mapping[str, Level | None]  # a value by the path of its setting; None: not set

TRAINING = (
    "optimizer", "batch_size", "warmup_epochs", "patience", "crop_padding", "resized_crop", "flip",
    "autoaugment", "randaugment", "colorjitter", "random_erasing", "cutmix", "mixup", "cutout",
    "greyscale", "blur", "solarize", "dino",
    "repeats", "label_smoothing", "ema_decay", "distillation", "model.drop_path",
    "data.validation_fraction",
)  # fmt: skip
UNSET = ("patience", "optimizer.clip_norm", "ema_decay")  # absent if they are None
# Settings that belong to a data set. Even a claim that compares data sets needs the paper's values.
OF_SETS = (
    "data.name", "data.image_size", "data.fraction", "epochs", "patience", "warmup_epochs",
    "batch_size", "optimizer",
)  # fmt: skip
WORDS = {
    "optimizer.lr": "learning rate", "optimizer.weight_decay": "weight decay",
    "crop_padding": "padding of the crop", "cutmix.probability": "CutMix's probability",
    "cutmix.alpha": "CutMix's alpha", "label_smoothing": "label smoothing",
    "batch_size": "batch of", "warmup_epochs": "warm-up epochs",
}  # fmt: skip


@dataclass(frozen=True)
class PaperRecipe:
    """The settings that a paper trained with, and which of them we assumed.

    Args:
        expected: A function that returns the paper's settings for the data set and model of a run.
        assumed: A function that describes, in a few words each, what the paper does not give.
    """

    expected: Callable[[Settings], Expected]
    assumed: Callable[[Settings], Sequence[str]]

    def differences(self, settings: Settings, compares: Sequence[str]) -> list[str]:
        """Describe how a run was trained differently, apart from what the claim compares."""
        treated = [x for x in compares if x not in OF_SETS]
        return [
            f"{WORDS.get(path, path)} {_word(settings.get(path))} instead of {_word(wanted)}"
            for path, wanted in self.expected(settings).items()
            if settings.get(path) != wanted and not is_below(path, treated)
        ]


def is_below(path: str, names: Sequence[str]) -> bool:
    """Return whether a dotted path is one of some names or lies below one.

    >>> is_below("optimizer.lr", ["optimizer"]), is_below("optimizer_lr", ["optimizer"])
    (True, False)
    """
    return any(path == name or path.startswith(f"{name}.") for name in names)


def _word(level: Level | None) -> str:
    return "not set" if level is None else level_text(level)


def preset_recipe(
    name: Callable[[Settings], str], fullest: str | None = None, also: Sequence[str] = ()
) -> PaperRecipe:
    """Make a recipe from a preset, for the data set of a run and its fraction of the data.

    Args:
        name: A function that returns the preset of a run, given its settings.
        fullest: A preset with every part, whose assumed values are listed. By default, that of the
            run itself.
        also: Further assumptions, and differences from the paper that all our runs have.
    """

    def protocol(settings: Settings, which: str) -> Protocol:
        known = preset(which, str(settings["data.name"]))
        return at_fraction(known, float(settings.get("data.fraction", 1.0)))

    def expected(settings: Settings) -> Expected:
        flat = protocol_settings(protocol(settings, name(settings)))
        paths = [*flat, *(path for path in UNSET if path not in flat)]
        return {path: flat.get(path) for path in paths if is_below(path, TRAINING)}

    def assumed(settings: Settings) -> Sequence[str]:
        found = assumed_values(protocol(settings, fullest or name(settings)))
        return [*(f"{WORDS.get(path, path)} {_word(x)}" for path, x in found.items()), *also]

    return PaperRecipe(expected, assumed)
