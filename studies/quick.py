"""Does a study run here from plan to report, and does CutMix change a tiny model at all?

The study tests the software, not CutMix: the model `mu` has only 13,282 parameters.
Command: nearsight study run quick --workers 2 --out studies-out/quick
Hardware: 2 cores, no GPU, no data set to fetch
Time: 1 to 5 minutes
Expected: 4 cells; accuracy between 10 and 30 %, MAD near that of uniform attention, 0.418
"""

from __future__ import annotations

from dataclasses import replace

from nearsight.study.design import Condition, PrimaryContrast, Study, cutmix_off_and_on

PRIMARY = PrimaryContrast("min_mad", {"cutmix": True}, {"cutmix": False})


def study() -> Study:
    conditions = []
    for cutmix, protocol in cutmix_off_and_on("shapes"):
        short = replace(protocol, epochs=5, model=replace(protocol.model, name="mu_vit"))
        conditions.append(Condition({"cutmix": cutmix}, short))
    return Study(
        tuple(conditions), num_seeds=2, settings={"measure": {"num_images": 256}}, primary=PRIMARY
    )
