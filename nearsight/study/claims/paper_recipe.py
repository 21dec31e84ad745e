"""Record how a paper trained: the settings that a verdict needs, and our assumptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nearsight.protocol import Protocol, assumed_values, at_fraction, preset
from nearsight.study.design import Level, level_text, protocol_settings

Settings = Mapping[str, Level]
Expected = Mapping[str, Level | None]  # by path; None: not set

TRAINING = (
    "optimizer", "batch_size", "warmup_epochs", "patience", "crop_padding", "resized_crop", "flip",
    "autoaugment", "randaugment", "colorjitter", "random_erasing", "cutmix", "mixup", "cutout",
    "greyscale", "blur", "solarize", "dino",
    "repeats", "label_smoothing", "ema_decay", "distillation", "model.drop_path",
    "data.validation_fraction",
)  # fmt: skip
UNSET = ("patience", "optimizer.clip_norm", "ema_decay")  # absent where they are None
# Settings that belong to a data set: that a claim compares sets does not excuse other values.
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
        expected: The settings by path, given those of a run (its data set, its model).
        assumed: What the paper does not say, a few words each.
    """

    expected: Callable[[Settings], Expected]
    assumed: Callable[[Settings], Sequence[str]]

    def differences(self, settings: Settings, compares: Sequence[str]) -> list[str]:
        """Say in what a run was trained otherwise, apart from what the claim compares."""
        treated = [x for x in compares if x not in OF_SETS]
        return [
            f"{WORDS.get(path, path)} {_word(settings.get(path))} instead of {_word(wanted)}"
            for path, wanted in self.expected(settings).items()
            if settings.get(path) != wanted and not is_below(path, treated)
        ]


def is_below(path: str, names: Sequence[str]) -> bool:
    """Tell whether a dotted path is one of these, or inside one.

    >>> is_below("optimizer.lr", ["optimizer"]), is_below("optimizer_lr", ["optimizer"])
    (True, False)
    """
    return any(path == name or path.startswith(f"{name}.") for name in names)


def _word(level: Level | None) -> str:
    return "not set" if level is None else level_text(level)


def preset_recipe(
    name: Callable[[Settings], str], fullest: str | None = None, also: Sequence[str] = ()
) -> PaperRecipe:
    """Return the recipe of a preset, on the data set of a run and on its fraction of the data.

    Args:
        name: The preset of a run, given its settings.
        fullest: The preset with every part, whose assumed values are named.
        also: What else was assumed, or differs from the paper in all our runs.
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
