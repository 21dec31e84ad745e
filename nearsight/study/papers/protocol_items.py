"""The tables and figures of the protocol paper."""

from __future__ import annotations

from functools import partial

from nearsight.study.papers.item import PaperItem

of_paper = partial(PaperItem, paper="protocol")
SETS, ABLATION = "protocol-datasets", "protocol-ablation"
SMALL = ("protocol-small",)  # the laptop scale of the ablation, under the name of its results

PROTOCOL_ITEMS: tuple[PaperItem, ...] = (
    of_paper(label="table 1", title="Accuracy of Baseline and Modern on three data sets",
             recipe=SETS, shown="table 1 beside the paper"),
    of_paper(label="table 2", title="Eight protocols on CIFAR-100: accuracy, MAD, entropy",
             recipe=ABLATION, also=SMALL, shown="table 2 beside the paper"),
    of_paper(label="figure 1", title="MAD of every head in layers 1, 2, 7 and 8",
             recipe=SETS, shown="figure: profiles of layers"),
    of_paper(label="figure 2", title="MAD against entropy of every head, CIFAR-100",
             recipe=SETS, shown="figure: plane of heads"),
    of_paper(label="figure 3", title="Heatmaps of MAD and entropy, layer by head",
             recipe=SETS, shown="figure: heatmaps"),
    of_paper(label="figure 4", title="Minimum MAD of the eight protocols, sorted",
             recipe=ABLATION, also=SMALL, shown="figure: ranking"),
    of_paper(label="figure 5", title="MAD against entropy of four key protocols",
             recipe=ABLATION, also=SMALL, shown="figure: plane of key conditions"),
)  # fmt: skip
