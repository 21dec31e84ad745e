"""Does locality grow with the amount of data, or does it saturate?

The study trains on fractions of CIFAR-100 with epochs scaled by 1 / fraction, by Baseline with and
without CutMix. The review of the protocol paper asks for it.
Command: nearsight study run data-size --scale laptop --workers 2 --out studies-out/data-size
Hardware: laptop: 2 cores, no GPU. paper: a GPU per cell
Time: laptop: 18 cells, about 1.5 core-hours. paper: 30 cells, about 2.2 GPU-hours at 100 TFLOP/s
Expected: not in the papers. results/smallest has min MAD 0.429 and 0.421 on a tenth, 0.396 and
  0.397 on all images (without and with CutMix, 2 layers)
Laptop: 2 layers, 4x4 patches; every run sees as many images as 24 epochs have. It cannot show what
  happens on 8x8 patches after hundreds of epochs, or with more than 50,000 images
"""

from __future__ import annotations

from nearsight.protocol import Protocol, at_fraction, preset
from nearsight.study.design import PrimaryContrast, Scale, Study, cross_factors, shrink

SHARES = {"laptop": (0.1, 0.3, 1.0), "paper": (0.05, 0.1, 0.3, 0.5, 1.0)}


def study(scale: Scale) -> Study:
    def protocol(fraction: float, cutmix: bool) -> Protocol:
        whole = preset("baseline+cutmix" if cutmix else "baseline", "cifar100")
        return at_fraction(shrink(whole) if scale == "laptop" else whole, fraction)

    return Study(
        cross_factors({"fraction": SHARES[scale], "cutmix": (False, True)}, protocol),
        primary=PrimaryContrast("min_mad", {"cutmix": True}, {"cutmix": False}),
    )
