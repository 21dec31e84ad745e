"""Does label smoothing change a model of two layers?

Command: none
Hardware: any
Time: seconds
Expected: nothing
"""

from dataclasses import replace

from nearsight.measure.catalogue import DEFAULT_METRICS
from nearsight.protocol.presets import preset
from nearsight.protocol.schema import DataSettings, ModelSettings
from nearsight.study.design.recipe_file import Condition, Study


def study():
    base = replace(
        preset("baseline", "shapes"),
        data=DataSettings(name="shapes", fraction=0.1, validation_fraction=0.3),
        model=ModelSettings(name="mu", patch_size=8),
        epochs=3, patience=None, batch_size=31, measure_every=3, measure_images=7,
    )  # fmt: skip
    return Study(
        tuple(
            Condition({"labelsmoothing": value > 0}, replace(base, label_smoothing=value))
            for value in (0.0, 0.1)
        ),
        num_seeds=1,
        settings={"measure": {"num_images": 11, "metrics": (*DEFAULT_METRICS, "nmi")}},
    )
