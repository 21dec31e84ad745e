"""List the tables and figures of the protocol paper, and what its outlook and review ask for."""

from __future__ import annotations

from functools import partial

from nearsight.study.papers.item import PaperItem

of_paper = partial(PaperItem, paper="protocol")
SETS, ABLATION = "protocol-datasets", "protocol-ablation"
SMALL = ("protocol-small",)  # the laptop scale of the ablation, which results/ has by this name

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
    of_paper(label="outlook i", title="Many seeds with intervals", recipe=ABLATION, also=SMALL,
             command="--seeds 5", shown="tables of effects"),
    of_paper(label="outlook ii", title="The ablation on CIFAR-10 and Tiny-ImageNet",
             recipe="protocol-ablation-sets", shown="tables of effects"),
    of_paper(label="outlook iii", title="Larger ViTs", recipe="depth-width", also=("scale",),
             shown="tables of effects"),
    of_paper(label="outlook iv", title="When locality appears in training", recipe="emergence",
             shown="figures: emergence and onset"),
    of_paper(label="outlook v", title="Mixup and CutOut instead of CutMix", recipe="mixing",
             shown="table of runs"),
    of_paper(label="review a", title="Does locality grow with data, or saturate?",
             recipe="data-size", shown="tables of effects"),
    of_paper(label="review b", title="CutMix instead of a local architecture",
             recipe="architectures", shown="tables of effects"),
    of_paper(label="review c", title="Occlusion: does a local model lose less?",
             command="nearsight evaluate RUN --task occlusion",
             reason="nothing is trained: it takes finished runs with and without CutMix"),
)  # fmt: skip
