"""Does LocAt's Gaussian need a width and a strength that are predicted from the query?

The variants predict the widths from the layer's input, use one width for both axes or a fixed one,
or use the strength 1 or one without parameters, as in table 7 of the LocAt paper.
Command: nearsight study run locat-gaussian --scale laptop --out studies-out/locat-gaussian
Hardware: laptop: 2 cores, no GPU. paper: a GPU per cell, mini-ImageNet
Time: laptop: 24 cells, about 1.3 core-hours. paper: 48 cells, about 200 GPU-hours at 100 TFLOP/s
Expected: table 7 (mini-ImageNet, one seed): 78.5 % (Tiny) and 84.9 % (Base); a fixed width loses
  2.1 to 3.3 points, no strength 2.2 and 1.8; the others are within 0.7 points
Laptop: `nano` for Tiny, on a fifth of CIFAR-100, 5 epochs. Its seeds differ by more than a point or
  two, so it cannot tell these variants apart by accuracy
"""

from __future__ import annotations

from dataclasses import replace

from nearsight.protocol import GaussianSettings, LocatSettings, Protocol
from nearsight.study.design import (
    BRIEF_MEASURE,
    PrimaryContrast,
    Scale,
    Study,
    cross_factors,
    locat_protocol,
    shorten,
)

GAUSSIANS = {  # the rows of table 7; its three fixed widths are lost in our copy of the paper
    "LocAtViT": GaussianSettings(),
    "width from the input": GaussianSettings(source="input"),
    "isotropic": GaussianSettings(isotropic=True),
    "width 1": GaussianSettings(width=1.0),
    "width 2": GaussianSettings(width=2.0),
    "width 4": GaussianSettings(width=4.0),
    "strength 1": GaussianSettings(strength="one"),
    "automatic strength": GaussianSettings(strength="auto"),
}


def study(scale: Scale) -> Study:
    brief = scale == "laptop"

    def protocol(gaussian: str, size: str) -> Protocol:
        locat = locat_protocol("locat-small", "mini-imagenet", "ViT", size)
        parts = LocatSettings(gaussian=GAUSSIANS[gaussian])
        chosen = replace(locat, model=replace(locat.model, locat=parts))
        return shorten(chosen, "nano_locat") if brief else chosen

    sizes = ("Tiny",) if brief else ("Tiny", "Base")
    return Study(
        cross_factors({"gaussian": tuple(GAUSSIANS), "size": sizes}, protocol),
        settings=BRIEF_MEASURE if brief else {},
        primary=PrimaryContrast("accuracy", {"gaussian": "LocAtViT"}, {"gaussian": "width 1"}),
    )
