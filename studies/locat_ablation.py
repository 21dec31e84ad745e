"""Which part of LocAt, and which form of its kernel, changes accuracy and locality?

The compact ViT by Modern on CIFAR-100: plain, GAug, PRR, both; both with each variant of the
appendix; with the mean of the patches in PRR's place; without positional embeddings.
Command: nearsight study run locat-ablation --workers 2 --out studies-out/locat
Hardware: a GPU per cell; a core does 20 to 25 images/s of 24 million
Time: not run here at this scale; `nano` with 10 epochs is in docs/experiment-log.md
Expected: the paper's gains are for ImageNet and segmentation and do not carry over
"""

from __future__ import annotations

from dataclasses import replace

from nearsight.protocol import GaussianSettings, LocatSettings, preset
from nearsight.study.design import Condition, PrimaryContrast, Study

KERNELS: dict[str, GaussianSettings] = {
    "width from the input": GaussianSettings(source="input"),
    "isotropic": GaussianSettings(isotropic=True),
    "width 1": GaussianSettings(width=1.0),
    "width 2": GaussianSettings(width=2.0),
    "strength 1": GaussianSettings(strength="one"),
    "automatic strength": GaussianSettings(strength="auto"),
    "Laplace": GaussianSettings(kernel="laplace"),
    "inverse distance": GaussianSettings(kernel="inverse"),
}


PRIMARY = PrimaryContrast("accuracy", {"model": "LocAt"}, {"model": "plain"})


def study() -> Study:
    modern = preset("modern", "cifar100")
    vit, locat = (replace(modern.model, name=name) for name in ("compact_vit", "compact_locat"))
    models = {
        "plain": vit,
        "GAug": replace(vit, name="compact_gaug"),
        "PRR": replace(vit, name="compact_prr"),
        "LocAt": locat,
        "mean of patches": replace(vit, pool="avg"),
        "plain, no positions": replace(vit, positions=False),
        "LocAt, no positions": replace(locat, positions=False),
    } | {
        f"LocAt, {name}": replace(locat, locat=LocatSettings(gaussian=kernel))
        for name, kernel in KERNELS.items()
    }
    return Study(
        tuple(Condition({"model": name}, replace(modern, model=x)) for name, x in models.items()),
        primary=PRIMARY,
    )
