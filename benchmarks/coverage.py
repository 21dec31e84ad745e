"""Simulate how often every interval of nearsight contains the true value.

Command: python benchmarks/coverage.py --trials 4000
Time: 50 seconds of one core. Nominal coverage is 95 % throughout; two standard errors of a row are
0.7 points with 4,000 trials, 1.4 with 1,000.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import torch

from nearsight.stats import (
    accuracy_loss,
    exact_share,
    extreme_difference,
    extreme_interval,
    image_contrasts,
    image_interval,
    miou,
    other_half_values,
    over_seeds,
    paired_image_interval,
    simultaneous_level,
    t_interval,
    weighted_mean,
    wilson_interval,
)

Trial = Callable[[np.random.Generator], bool]


def inside(low: float, truth: float, high: float) -> bool:
    return bool(low <= truth <= high)


def mean_over_images(n: int) -> Trial:
    def trial(rng: np.random.Generator) -> bool:
        _, low, high, _ = t_interval(torch.from_numpy(rng.standard_normal(n)))
        return inside(low.item(), 0.0, high.item())

    return trial


def mean_over_seeds(n: int) -> Trial:
    def trial(rng: np.random.Generator) -> bool:
        found = over_seeds(rng.standard_normal(n).tolist())
        return inside(found.low, 0.0, found.high)

    return trial


def all_or_none_mean(n: int, p: float) -> Trial:
    """Simulate a min MAD of 0.01 with probability p, else 0.30, where t-intervals fail."""

    def trial(rng: np.random.Generator) -> bool:
        found = over_seeds(np.where(rng.random(n) < p, 0.01, 0.30).tolist())
        return inside(found.low, 0.01 * p + 0.30 * (1 - p), found.high)

    return trial


def all_or_none_share(n: int, p: float) -> Trial:
    def trial(rng: np.random.Generator) -> bool:
        found = exact_share(int((rng.random(n) < p).sum()), n)
        return inside(found.low, p, found.high)

    return trial


def all_at_once(n: int, num: int, own: bool, shared: float) -> Trial:
    """Simulate contrasts without an effect that share the part ``shared`` of their noise."""
    level = 0.95 if own else simultaneous_level(num)

    def trial(rng: np.random.Generator) -> bool:
        noise = rng.standard_normal((num, n)) * (1 - shared) ** 0.5
        noise += rng.standard_normal(n) * shared**0.5
        found = [over_seeds(row.tolist(), level) for row in noise]
        return all(inside(x.low, 0.0, x.high) for x in found)

    return trial


def smallest_head(n: int, means: np.ndarray) -> Trial:
    def trial(rng: np.random.Generator) -> bool:
        found = extreme_interval(means + rng.standard_normal((n, len(means))))
        return inside(found.low, float(means.min()), found.high)

    return trial


def difference_of_smallest_heads(n: int, one: np.ndarray, other: np.ndarray) -> Trial:
    """Simulate two models whose heads have these means, and which share half of the noise."""

    def trial(rng: np.random.Generator) -> bool:
        shared = rng.standard_normal((n, 1))
        a, b = (x + shared + rng.standard_normal((n, len(x))) for x in (one, other))
        _, low, high = extreme_difference(a, b)
        return inside(low, float(other.min() - one.min()), high)

    return trial


def min_mad_effect(seeds: int, images: int, of_seeds: float) -> Trial:
    """Simulate two conditions with equal smallest heads: runs differ, heads of a run are tied."""

    def trial(rng: np.random.Generator) -> bool:
        shared = rng.standard_normal((images, 1))
        sides: list[dict[int, np.ndarray]] = [{}, {}]
        for seed in range(seeds):
            for side in sides:
                level = of_seeds * rng.standard_normal()
                side[seed] = other_half_values(level + shared + rng.standard_normal((images, 8)))
        (found,) = image_contrasts(sides, [(1, -1)])
        assert found.over_both is not None
        return inside(found.over_both.low, 0.0, found.over_both.high)

    return trial


def accuracy_effect(seeds: int, images: int, of_seeds: float, of_images: float) -> Trial:
    """Simulate two conditions of equal accuracy whose runs share the images but not the seeds."""

    def trial(rng: np.random.Generator) -> bool:
        hard, gain = rng.normal(0, 1, images), rng.normal(0, of_images, images)
        sides: list[dict[int, np.ndarray]] = [{}, {}]
        for seed in range(seeds):
            for side, sign in zip(sides, (0.5, -0.5)):
                ability = 0.3 + of_seeds * rng.standard_normal() + sign * gain - hard
                side[seed] = (ability + rng.normal(0, 1, images) > 0).astype(float)
        (found,) = image_contrasts(sides, [(1, -1)])
        assert found.over_both is not None
        return inside(found.over_both.low, 0.0, found.over_both.high)

    return trial


def lost_accuracy(n: int) -> Trial:
    """Simulate a change that makes 8 % of the answers wrong and 3 % right: 5 points are lost."""

    def trial(rng: np.random.Generator) -> bool:
        draw = rng.random(n)
        before = (draw < 0.08) | (draw > 0.5)
        after = ((draw >= 0.08) & (draw < 0.11)) | (draw > 0.5)
        found = accuracy_loss(before, after)
        return inside(found.low, 0.05, found.high)

    return trial


def accuracy_of_one_run(n: int) -> Trial:
    def trial(rng: np.random.Generator) -> bool:
        low, high = wilson_interval(float((rng.random(n) < 0.6).mean()), n)
        return inside(low, 0.6, high)

    return trial


def number_by_bootstrap(n: int) -> Trial:
    """Simulate the percentiles of a bootstrap over images, as evaluations use them."""

    def trial(rng: np.random.Generator) -> bool:
        found = image_interval(weighted_mean, rng.standard_normal(n))
        return inside(found.low, 0.0, found.high)

    return trial


def difference_by_bootstrap(n: int) -> Trial:
    """Simulate the same for two models on the same images, with 70 and 65 % right answers."""

    def trial(rng: np.random.Generator) -> bool:
        easy = rng.random(n)
        one, other = (
            (easy + 0.3 * rng.random(n) < share + 0.15).astype(float) for share in (0.70, 0.65)
        )
        found = paired_image_interval(weighted_mean, one, other)
        return inside(found.low, 0.05, found.high)

    return trial


def miou_by_bootstrap(n: int) -> Trial:
    """Simulate mIoU of 5 classes; an image has two of them, 64 pixels, and its own quality."""

    def confusions(rng: np.random.Generator, num: int) -> np.ndarray:
        found = np.zeros((num, 5, 5))
        for matrix in found:
            for true in rng.choice(5, 2, replace=False):
                right = rng.binomial(32, rng.beta(6, 3))
                matrix[true, true] += right
                matrix[true, rng.integers(5)] += 32 - right
        return found

    population = confusions(np.random.default_rng(11), 4000)
    truth = float(miou(population, np.ones(len(population))))

    def trial(rng: np.random.Generator) -> bool:
        found = image_interval(miou, population[rng.integers(0, len(population), n)])
        return inside(found.low, truth, found.high)

    return trial


def rows() -> list[tuple[str, str, Trial]]:
    """Return the name of each interval, its sample, and a function for one trial."""
    tied, gap = np.zeros, lambda n, heads: np.r_[0, np.full(heads - 1, 2 / n**0.5)]
    winner = np.r_[-1.0, np.zeros(15)]
    return [
        *(("mean over images, t", f"{n} images", mean_over_images(n)) for n in (3, 64)),
        *(
            (f"difference of smallest heads, {name}", f"{n} images, {len(one)} heads",
             difference_of_smallest_heads(n, one, other))
            for name, n, one, other in (
                ("tied", 64, tied(16), tied(16)), ("tied", 1000, tied(16), tied(16)),
                ("tied", 64, tied(2), tied(2)),
                ("gap of 2 SE", 64, gap(64, 16), gap(64, 16)),
                ("gap of 3 SE", 64, 1.5 * gap(64, 16), 1.5 * gap(64, 16)),
                ("clear winners", 64, winner, winner), ("one tied", 64, tied(16), winner),
            )
        ),
        *(("mean over seeds, t", f"{n} seeds", mean_over_seeds(n)) for n in (3, 5)),
        *(
            ("all-or-none min MAD, t (not to be trusted)", f"{n} seeds, p 0.9",
             all_or_none_mean(n, 0.9)) for n in (3, 5, 10)
        ),
        *(
            ("share of seeds, Clopper-Pearson", f"{n} seeds, p 0.9", all_or_none_share(n, 0.9))
            for n in (3, 5, 10)
        ),
        *(
            ("smallest head, tied heads", f"{n} images, {heads} heads",
             smallest_head(n, tied(heads))) for n in (64, 1000) for heads in (2, 16, 64)
        ),
        ("smallest head, gap of 2 SE", "64 images, 16 heads", smallest_head(64, gap(64, 16))),
        ("smallest head, clear winner", "64 images, 16 heads",
         smallest_head(64, winner)),
        *(
            ("accuracy effect, seeds and images",
             f"{n} seeds, 500 images, spread of seeds {spread}, of images {of_images}",
             accuracy_effect(n, 500, spread, of_images))
            for n in (3, 5) for spread in (0.0, 0.1) for of_images in (0.5, 1.5)
        ),
        *(
            ("min MAD effect, seeds and images, tied heads",
             f"{n} seeds, 200 images, spread of seeds {spread}", min_mad_effect(n, 200, spread))
            for n in (3, 5) for spread in (0.0, 0.1)
        ),
        *(
            ("35 contrasts, all at once, each for itself (not to be trusted)", f"{n} seeds",
             all_at_once(n, 35, True, 0.0)) for n in (3, 5)
        ),
        *(
            ("35 contrasts, all at once, simultaneous", f"{n} seeds, {share:g} of the noise shared",
             all_at_once(n, 35, False, share)) for n in (3, 5) for share in (0.0, 0.5)
        ),
        *(("accuracy lost, Agresti-Min", f"{n} images", lost_accuracy(n)) for n in (100, 1000)),
        *(("accuracy of a run, Wilson", f"{n} images", accuracy_of_one_run(n)) for n in (50, 1000)),
        *(("bootstrap percentiles", f"{n} images", number_by_bootstrap(n)) for n in (20, 200)),
        *(
            ("bootstrap percentiles, paired difference of accuracy", f"{n} images",
             difference_by_bootstrap(n)) for n in (50, 500)
        ),
        *(("bootstrap percentiles, mIoU", f"{n} images", miou_by_bootstrap(n)) for n in (50, 400)),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--only", default="", help="Rows whose name contains this.")
    given = parser.parse_args()
    trials = given.trials
    print("| interval | sample | nominal | simulated | trials |\n|---|---|---|---|---|")
    for name, sample, trial in rows():
        if given.only not in name:
            continue
        rng = np.random.default_rng(0)
        hits = sum(trial(rng) for _ in range(trials))
        print(f"| {name} | {sample} | 95 % | {100 * hits / trials:.1f} % | {trials} |", flush=True)


if __name__ == "__main__":
    main()
