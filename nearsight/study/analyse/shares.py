"""Count the seeds in which a head became local or an identity head, with exact intervals.

A run has such a head or it does not. The mean of min MAD over seeds jumps with the number of seeds
that have one, so a t-interval over 3 seeds contains the true mean in only 27 to 48 % of
simulations. The interval of the share of seeds is valid for every number of seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nearsight.measure.catalogue import NEAR_KINDS, NearKind
from nearsight.stats import Estimate, exact_share
from nearsight.study.analyse.outcome import Factors, Outcome, by_condition


@dataclass(frozen=True)
class SeedShare:
    """The share of a condition's seeds that have a head of a kind below the 3x3 line."""

    condition: Factors
    kind: NearKind
    count: int
    share: Estimate  # with the interval of Clopper and Pearson


def seed_shares(found: Sequence[Outcome]) -> list[SeedShare]:
    """Return the shares of every condition, identity heads first; empty without self-mass."""
    shares = []
    for kind in NEAR_KINDS:
        for condition, by_seed in by_condition(found, f"{kind}_heads").items():
            count = sum(x > 0 for x in by_seed.values())
            shares.append(SeedShare(condition, kind, count, exact_share(count, len(by_seed))))
    return shares
