"""Try to measure one model of every model file, and variants with other kinds of attention.

    python benchmarks/families.py FOLDER [--variants] [--page docs/families.md]

The script runs ``nearsight models coverage`` from Python: it measures every model in a process of
its own, with random weights on images of noise, so nothing is downloaded. If it was stopped, the
same command continues. It takes under two hours for all models on two cores, and two minutes with
``--variants``, which tries only models whose attention differs from that of the model that stands
for their file. Expected: no crash, and all variants are measured except ``gcresnet33ts`` (it pools
with one query) and ``bat_resnext26ts`` (it has no softmax).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from nearsight.measure.coverage import coverage_table, covered_models, run_coverage, write_page

VARIANTS = (
    "vit_dlittle_patch16_reg1_gap_256", "vit_srelpos_small_patch16_224", "test_vit4",
    "beit3_base_patch16_224", "twins_pcpvt_small", "tnt_s_patch16_224", "fastvit_mci0",
    "levit_conv_128s", "lamhalobotnet50ts_256", "haloregnetz_b", "coatnext_nano_rw_224",
    "maxxvit_rmlp_nano_rw_256", "pit_ti_distilled_224", "hiera_small_abswin_256",
    "crossvit_9_dagger_240", "mobilevit_s", "gcresnet33ts", "bat_resnext26ts",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="keep results here and do not repeat them")
    parser.add_argument("--variants", action="store_true", help="try the variants only")
    parser.add_argument("--page", type=Path, help="write the table into this page")
    given = parser.parse_args()
    names = [f"timm/{x}" for x in VARIANTS] if given.variants else covered_models()
    rows = run_coverage(
        given.folder, names, progress=lambda done, most: print(f"{done}/{most}", flush=True)
    )
    print(coverage_table(rows))
    print(f"{sum(row.seconds for row in rows):.0f} s in all")
    if given.page:
        write_page(given.page, rows)


if __name__ == "__main__":  # the processes of the models import this file
    main()
