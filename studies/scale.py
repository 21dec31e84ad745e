"""Does the effect of CutMix on locality depend on depth, width or the size of patches?

One change to the compact ViT at a time, by Baseline with and without CutMix, on CIFAR-100. MAD does
not compare between grids as it stands: read it beside the null lines of each.
Command: nearsight study run scale --workers 2 --out studies-out/scale
Hardware: a GPU per cell
Time: not run here at this scale; `study plan` calibrates it
Expected: not in the papers, which have one size
"""

from __future__ import annotations

from dataclasses import replace

from nearsight.study.design import Condition, PrimaryContrast, Study, cutmix_off_and_on

SIZES: dict[str, dict[str, int]] = {
    "compact": {},
    "depth 4": {"depth": 4},
    "depth 12": {"depth": 12},
    "width 96": {"width": 96},
    "width 384": {"width": 384},
    "patch 8": {"patch_size": 8},
    "patch 2": {"patch_size": 2},
}


PRIMARY = PrimaryContrast(
    "min_mad", {"size": "compact", "cutmix": True}, {"size": "compact", "cutmix": False}
)


def study() -> Study:
    conditions = []
    for name, changes in SIZES.items():
        for cutmix, protocol in cutmix_off_and_on("cifar100"):
            sized = replace(protocol, model=replace(protocol.model, **changes))
            conditions.append(Condition({"size": name, "cutmix": cutmix}, sized))
    return Study(tuple(conditions), primary=PRIMARY)
