"""Does the Modern protocol make attention more local on every data set?

The study trains by Baseline and by Modern on CIFAR-10, CIFAR-100 and Tiny-ImageNet, as in table 1
and figures 1 to 3 of the protocol paper.
Command: nearsight study run protocol-datasets --workers 2 --out studies-out/datasets
Hardware: laptop: 2 cores, no GPU. paper: a GPU per cell; a core trains on 21 to 25
  images/s, and a cell sees 24 to 32 million images
Time: laptop: 18 cells, about 1.4 core-hours. paper: 18 cells, about 1.5 GPU-hours at 100 TFLOP/s
Expected: the paper's table 1, one seed: accuracy 78.46 and 84.84 % (CIFAR-10), 48.53 and 63.38 %
  (CIFAR-100), 34.89 and 41.92 % (Tiny-ImageNet); min MAD 0.316 and 0.008 on CIFAR-100
Laptop: 2 layers, 4x4 patches, 24 epochs (Tiny-ImageNet: 8). It cannot show what happens on 8x8
  patches after hundreds of epochs
"""

from __future__ import annotations

from nearsight.protocol import Protocol, preset
from nearsight.study.design import PrimaryContrast, Scale, Study, cross_factors, shrink

LAPTOP_EPOCHS = {"cifar10": 24, "cifar100": 24, "tiny-imagenet": 8}
PRIMARY = PrimaryContrast("min_mad", {"protocol": "modern"}, {"protocol": "baseline"})


def study(scale: Scale) -> Study:
    def chosen(data: str, protocol: str) -> Protocol:
        whole = preset(protocol, data)
        return shrink(whole, epochs=LAPTOP_EPOCHS[data]) if scale == "laptop" else whole

    factors = {"data": tuple(LAPTOP_EPOCHS), "protocol": ("baseline", "modern")}
    return Study(cross_factors(factors, chosen), primary=PRIMARY)
