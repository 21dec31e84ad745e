"""The frozen settings of a run: the schema, presets by name, overrides given as text."""

from __future__ import annotations

from nearsight.protocol.fraction import FRACTIONS, at_fraction, whole_name
from nearsight.protocol.gpsa_settings import GpsaChoice, GpsaSettings, gpsa_settings
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
from nearsight.protocol.presets import EIGHT, PARTS, PRESETS, assumed_values, preset
from nearsight.protocol.schema import (
    AutoAugment,
    ColorJitter,
    CutMix,
    CutOut,
    DataSettings,
    Distillation,
    Mixup,
    ModelSettings,
    Optimizer,
    Protocol,
    RandAugment,
    RandomErasing,
    ResizedCrop,
    optional_parts,
)

__all__ = [
    "EIGHT",
    "FRACTIONS",
    "PARTS",
    "PRESETS",
    "AutoAugment",
    "ColorJitter",
    "CutMix",
    "CutOut",
    "DataSettings",
    "Distillation",
    "GaussianChoice",
    "GaussianSettings",
    "GpsaChoice",
    "GpsaSettings",
    "LocatChoice",
    "LocatSettings",
    "Mixup",
    "ModelSettings",
    "Optimizer",
    "Protocol",
    "RandAugment",
    "RandomErasing",
    "ResizedCrop",
    "assumed_values",
    "at_fraction",
    "fitted_warmup",
    "gaussian_settings",
    "gpsa_settings",
    "locat_settings",
    "option_values",
    "optional_parts",
    "override",
    "preset",
    "preset_tables",
    "protocol_from",
    "protocol_yaml",
    "read_protocol",
    "whole_name",
]
