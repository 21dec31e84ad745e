"""List the claims of ConViT on layers, gates and the size of models."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from nearsight.study.analyse import GATE_SHUT, Outcome
from nearsight.study.claims.claim import ABOVE, BELOW, Claim, ClaimPart, Region, Scale, Statistic
from nearsight.study.claims.comparisons import difference, find_matching, level, parts, weighted_sum
from nearsight.study.claims.convit_claims import ALL, BASE, CONVIT, MODELS, PLAIN, RECIPE, SMALL

OF_SIZES = (*MODELS, "size")
PLUS = ("tiny_plus", "small_plus", "base_plus")
DIVERSE = Scale(
    ("convit_tiny", "deit_tiny", "convit_small", "deit_small"), {"imagenet": 300}, "14x14",
    recipe=RECIPE,
)  # fmt: skip


def _grows_with_size(value: str, sizes: Sequence[str], label: str) -> Statistic:
    """Test the difference between each size of ConViT and the size before it."""
    return parts(
        *(
            weighted_sum(
                [(1, value, {**CONVIT, "size": large}), (-1, value, {**CONVIT, "size": small})],
                ABOVE, f"{label}, {large} - {small}",
            )
            for small, large in pairwise(sizes)
        )
    )  # fmt: skip


def _gain_grows(sizes: Sequence[str]) -> Statistic:
    """Test by how much the relative gain of ConViT over DeiT grows from each size to the next."""

    def gains(outcomes: Sequence[Outcome], size: str) -> tuple[dict[int, float], list[Outcome]]:
        sides = [
            find_matching(outcomes, {**side, "size": size}, "accuracy") for side in (CONVIT, PLAIN)
        ]
        one, plain = ({seed: x.values["accuracy"] for seed, x in y.items()} for y in sides)
        used = [x for side in sides for x in side.values()]
        shared = sorted(seed for seed in one.keys() & plain.keys() if plain[seed] > 0)
        return {seed: 100 * (one[seed] / plain[seed] - 1) for seed in shared}, used

    def statistic(outcomes: Sequence[Outcome]) -> list[ClaimPart]:
        found = {size: gains(outcomes, size) for size in sizes}
        steps = []
        for small, large in pairwise(sizes):
            (low, used), (high, more) = found[small], found[large]
            if low and high:
                grown = {seed: high[seed] - low[seed] for seed in sorted(low.keys() & high.keys())}
                label = f"relative gain in %, {large} - {small}"
                steps.append(ClaimPart(label, grown, ABOVE, (*used, *more)))
        return steps

    return statistic


CONVIT_SIZE_CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="convit-lower-stay", source="ConViT, section 4, figure 5 left", compares=MODELS,
        sentence="In a DeiT lower layers stay local, and upper layers climb back.",
        value="lower_nonlocality", scale=SMALL, num_parts=2,
        direction="lower half, end - start: below 0; upper half, end - epoch 5: above 0",
        statistic=parts(
            level("lower_nonlocality", PLAIN, BELOW,
                  "nonlocality in patches, end - start, mean of the lower half"),
            level("upper_climb", PLAIN, ABOVE,
                  "nonlocality in patches, end - epoch 5, mean of the upper half"),
        ),
    ),
    Claim(
        id="convit-gates-shut", source="ConViT, section 4, figure 6", compares=MODELS,
        sentence="Gates reach 0 in layers 6 to 10.", scale=SMALL,
        value="late_gate", margin=GATE_SHUT,
        direction=f"largest mean gate of layers 6 to 10: at most {GATE_SHUT}",
        statistic=level("late_gate", CONVIT, Region(high=GATE_SHUT),
                        "mean gate, most of layers 6 to 10"),
    ),
    Claim(
        id="convit-gates-sizes", source="ConViT, appendix D, figure 14", compares=OF_SIZES,
        sentence="The larger the model, the more layers use position.", scale=ALL, num_parts=2,
        value="positional_layers", direction="each size - the one before it: above 0",
        statistic=_grows_with_size("positional_layers", ("tiny", "small", "base"),
                                   f"layers with a mean gate above {GATE_SHUT}"),
        paper="4, 5 and 6 layers (Ti, S, B)",
    ),
    Claim(
        id="convit-sizes-local", source="ConViT, appendix D, figure 13", compares=OF_SIZES,
        sentence="The first layer of the largest model is less local than that of the smallest.",
        value="nonlocality_layer_1", scale=ALL, num_parts=2,
        direction="Base - Tiny: above 0 for ConViT and for DeiT",
        statistic=parts(*(
            weighted_sum([(1, "nonlocality_layer_1", {**side, "size": "base"}),
                      (-1, "nonlocality_layer_1", {**side, "size": "tiny"})],
                     ABOVE, f"nonlocality of layer 1 in patches, Base - Tiny, {name}")
            for name, side in (("ConViT", CONVIT), ("DeiT", PLAIN))
        )),
    ),
    Claim(
        id="convit-sizes-gain", source="ConViT, appendix D, figure 11", compares=OF_SIZES,
        sentence="ConViT's gain over DeiT grows with the size of the model.", num_parts=2,
        value="accuracy", direction="relative gain, each size - the one before it: above 0",
        scale=ALL, statistic=_gain_grows(PLUS),
        paper="0.8, 3.2 and 5.0 points (Ti+, S+, B+)",
    ),
    Claim(
        id="convit-diverse", source="ConViT, section 4, figure 7", compares=MODELS,
        sentence="The heads of a ConViT are more diverse than those of a DeiT.",
        value="mean_head_diversity", direction="difference above 0", scale=DIVERSE,
        statistic=difference("mean_head_diversity", CONVIT, PLAIN, ABOVE,
                             "head diversity, mean of the layers, ConViT - DeiT"),
    ),
    Claim(
        id="convit-psa-early", source="ConViT, appendix A, figure 9", compares=MODELS,
        sentence="Without gates (PSA) a ConViT is ahead of the DeiT early in training.",
        value="accuracy_epoch_20", direction="difference above 0", scale=BASE,
        statistic=difference("accuracy_epoch_20", {"kind": "psa"}, PLAIN, ABOVE,
                             "accuracy after 20 epochs, PSA - DeiT"),
    ),
    Claim(
        id="convit-throughput", source="ConViT, section 3, table 1",
        sentence="ConViT-S+ is more accurate than DeiT-B and faster.",
        value="log_speed", direction="each difference above 0", num_parts=2, scale=ALL,
        compares=(*OF_SIZES, "optimizer", "batch_size"),
        statistic=parts(*(
            weighted_sum([(1, value, {**CONVIT, "size": "small_plus"}),
                      (-1, value, {**PLAIN, "size": "base"})],
                     ABOVE, f"{label}, ConViT-S+ - DeiT-B")
            for value, label in (("accuracy", "accuracy"),
                                 ("log_speed", "log of images trained per second"))
        )),
        paper="82.2 - 81.8 = 0.4 points; 382 and 187 images/s on a GP100",
    ),
)  # fmt: skip
