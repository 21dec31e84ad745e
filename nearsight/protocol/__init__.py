"""Define the frozen settings of a run: their schema, presets by name, and changes given as text.

``preset`` returns a ``Protocol`` by name, ``override`` changes single settings, and
``dataclasses.replace`` makes a variant in Python.
"""

from __future__ import annotations

from nearsight.protocol.fraction import FRACTIONS, at_fraction, whole_name
from nearsight.protocol.gpsa_settings import GpsaChoice, GpsaSettings, gpsa_settings
from nearsight.protocol.locat_presets import DROP_PATH
from nearsight.protocol.locat_settings import (
    GaussianChoice,
    GaussianSettings,
    LocatChoice,
    LocatSettings,
    gaussian_settings,
    locat_settings,
)
from nearsight.protocol.overrides import (
    fitted_warmup,
    option_values,
    override,
    protocol_from,
    protocol_yaml,
    read_protocol,
)
from nearsight.protocol.preset_listing import preset_tables
from nearsight.protocol.presets import (
    EIGHT,
    PARTS,
    PRESETS,
    UNTRAINED,
    assumed_values,
    preset,
    spoken_name,
)
from nearsight.protocol.schedule import (
    cosine_between,
    learning_rate,
    protocol_rate,
    schedule_text,
    weight_decay,
)
from nearsight.protocol.schema import (
    AutoAugment,
    Blur,
    ColorJitter,
    CutMix,
    CutOut,
    DataSettings,
    Dino,
    Distillation,
    Greyscale,
    Mixup,
    ModelSettings,
    Optimizer,
    Protocol,
    RandAugment,
    RandomErasing,
    ResizedCrop,
    Solarize,
    View,
    optional_parts,
)
from nearsight.protocol.stored_protocol import stored_settings
from nearsight.protocol.validation import shorten

__all__ = [
    "DROP_PATH",
    "EIGHT",
    "FRACTIONS",
    "PARTS",
    "PRESETS",
    "UNTRAINED",
    "AutoAugment",
    "Blur",
    "ColorJitter",
    "CutMix",
    "CutOut",
    "DataSettings",
    "Dino",
    "Distillation",
    "GaussianChoice",
    "GaussianSettings",
    "GpsaChoice",
    "GpsaSettings",
    "Greyscale",
    "LocatChoice",
    "LocatSettings",
    "Mixup",
    "ModelSettings",
    "Optimizer",
    "Protocol",
    "RandAugment",
    "RandomErasing",
    "ResizedCrop",
    "Solarize",
    "View",
    "assumed_values",
    "at_fraction",
    "cosine_between",
    "fitted_warmup",
    "gaussian_settings",
    "gpsa_settings",
    "learning_rate",
    "locat_settings",
    "option_values",
    "optional_parts",
    "override",
    "preset",
    "preset_tables",
    "protocol_from",
    "protocol_rate",
    "protocol_yaml",
    "read_protocol",
    "schedule_text",
    "shorten",
    "spoken_name",
    "stored_settings",
    "weight_decay",
    "whole_name",
]
