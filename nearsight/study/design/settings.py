"""Flatten all settings of a run to one mapping.

Claims read this mapping, so that they do not depend on how a recipe names its factors.
"""

from __future__ import annotations

import re
from dataclasses import asdict, replace

from nearsight.protocol import (
    GaussianSettings,
    GpsaSettings,
    LocatSettings,
    Protocol,
    optional_parts,
)
from nearsight.report.read import flat_settings
from nearsight.study.design.recipe_file import Level

SILENT = ("name", "measure_every", "measure_images")  # these do not change the training
ENDS = {"vit": "plain", "locat": "locat", "gaug": "gaug", "prr": "prr", "convit": "convit"}
STARTS = {"vit": "plain", "deit": "plain", "locatvit": "locat", "convit": "convit"}
LOCAT = "locat"  # names of other backbones with LocAt begin with it: locatswin_tiny
INPUT = re.compile(r"_patch\d+(_rope_mixed)?(_window\d+)?_\d+.*")  # the end of timm's names


def protocol_settings(protocol: Protocol, grid: tuple[int, int] | None = None) -> dict[str, Level]:
    """Return the settings of a protocol by dotted path; a group of settings is True or False.

    Added are ``size`` and ``kind`` of the model (such as compact and plain, or small and convit),
    ``labelsmoothing`` on or off, and the ``grid`` of patches. ``autoaugment`` is also on if
    ColorJitter takes its place.

    >>> from nearsight.protocol.presets import preset
    >>> found = protocol_settings(preset("baseline+cutmix"), (8, 8))
    >>> found["cutmix"], found["cutmix.probability"], found["mixup"], found["kind"], found["grid"]
    (True, 0.5, False, 'plain', '8x8')
    """
    size, kind = size_and_kind(protocol)
    flat = flat_settings(asdict(_spell_out(protocol, kind)))
    found: dict[str, Level] = {
        path: " ".join(map(str, x)) if isinstance(x, tuple | list) else x
        for path, x in flat.items()
        if x is not None and path not in SILENT
    }
    found |= {part: getattr(protocol, part) is not None for part in optional_parts(type(protocol))}
    found["autoaugment"] = bool(found["autoaugment"] or found["colorjitter"])
    found["labelsmoothing"] = protocol.label_smoothing > 0
    found |= {"size": size, "kind": kind}
    if grid is not None:
        found["grid"] = f"{grid[0]}x{grid[1]}"
    return found


def _spell_out(protocol: Protocol, kind: str) -> Protocol:
    """Add the settings that the name of a model stands for."""
    model = protocol.model
    if kind == "convit" and model.gpsa is None:
        model = replace(model, gpsa=GpsaSettings())
    if kind in ("locat", "gaug", "prr") and model.locat is None:
        gaussian = None if kind == "prr" else GaussianSettings()
        model = replace(model, locat=LocatSettings(gaussian=gaussian, refine=kind != "gaug"))
    return replace(protocol, model=model)


def size_and_kind(protocol: Protocol) -> tuple[str, str]:
    """Return the size and the kind of a model; models of equal size are comparable.

    The size also names the backbone if that is not a plain ViT: swin_tiny, tiny_rope_mixed. The
    kind is plain, gap (the mean of the patches instead of [CLS]), gaug, prr, locat (both), convit
    or psa.
    """
    model = protocol.model
    name = INPUT.sub(r"\1", model.name)
    start, _, rest = name.partition("_")
    size, _, end = name.rpartition("_")
    if start in STARTS and rest:
        size, kind = rest, STARTS[start]
    elif name.startswith(LOCAT):
        size, kind = name.removeprefix(LOCAT), LOCAT
    elif end in ENDS:
        kind = ENDS[end]
    else:
        size, kind = name, "plain"
    if model.gpsa is not None:
        kind = "psa" if model.gpsa.mixing == "summed" else "convit"
        kind = "plain" if model.gpsa.layers == 0 else kind
    if model.locat is not None:
        gaussian, refine = model.locat.gaussian is not None, model.locat.refine
        kinds = {(True, True): "locat", (True, False): "gaug", (False, True): "prr"}
        kind = kinds.get((gaussian, refine), "plain")
    return size, "gap" if kind == "plain" and model.pool == "avg" else kind
