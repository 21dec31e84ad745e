"""Made-up studies of backbones with LocAt, and of ConViTs of several sizes."""

from dataclasses import replace

from study.example_studies import recipe_of, runs, sides, with_model

from nearsight.protocol import Distillation, GpsaSettings, LocatSettings
from nearsight.protocol.presets import preset

DEIT_3 = Distillation(
    teacher="deit3_base_patch16_224.fb_in22k_ft_in1k", weights="pretrained", kind="soft"
)


def locat_on(value, *names_and_numbers, grid=(14, 14), **changes):
    """Runs by LocAt's recipe, on a grid of patches."""
    found = []
    values = (value,) if isinstance(value, str) else value
    for name, number in names_and_numbers:
        given = {"name": name} if isinstance(name, str) else name
        protocol = with_model(recipe_of(given["name"], "imagenet"), **given, **changes)
        if "jumbo" in given["name"]:
            protocol = replace(protocol, distillation=DEIT_3)
        found += runs(protocol, grid, dict.fromkeys(values, number))
    return found


def of_size(size, one, other, value):
    """A ConViT and a DeiT of a size, by the recipe of that size."""
    return sides(value, ({"name": f"convit_{size}"}, one), ({"name": f"deit_{size}"}, other))


def further(sign):
    """By the id of a claim, a study in which it holds (1) or the opposite does (-1)."""
    up, down = 0.5 + 0.1 * sign, 0.5 - 0.1 * sign
    pairs = {
        "swin": ("locatswin_tiny", "swin_tiny_patch4_window7_224", {"grid": (56, 56)}),
        "registers": ("locatvit_tiny", "vit_tiny_patch16_224", {"num_registers": 4}),
        "rope": ("locatvit_base_rope_mixed", "vit_base_patch16_rope_mixed_224", {}),
        "jumbo": ("locatjumbo_tiny", "jumbo_tiny", {}),
    }

    def gains(id):
        locat, plain, changes = pairs[id]
        return lambda: locat_on("segmentation_miou", (locat, up), (plain, down), **changes)

    def costs(id):
        locat, plain, changes = pairs[id]
        worse = 0.51 if sign > 0 else 0.6
        return lambda: locat_on("accuracy", (locat, 0.5), (plain, worse), **changes)

    def windowed():
        found = []
        for size in ("tiny", "base"):
            vit = (f"locatvit_{size}", 0.5 + 0.1 * (1 + sign)), (f"vit_{size}_patch16_224", 0.5)
            swin = (f"locatswin_{size}", 0.6), (f"swin_{size}_patch4_window7_224", 0.5)
            found += locat_on("segmentation_miou", *vit)
            found += locat_on("segmentation_miou", *swin, grid=(56, 56))
        return found

    def dino():
        return [
            outcome
            for name, number in (("locatvit_small", up), ("vit_small_patch16_224", down))
            for outcome in runs(
                preset("dino", "imagenet", name), (14, 14),
                {"linear_accuracy": number, "knn_accuracy": number},
            )
        ]  # fmt: skip

    def sizes(value, kinds, names, step):
        return [
            outcome
            for kind in kinds
            for i, size in enumerate(names)
            for outcome in sides(value, ({"name": f"{kind}_{size}"}, 5.0 + step * i))
        ]

    def lower_and_upper():
        deit = with_model(preset("deit", "imagenet"), name="deit_small")
        return runs(deit, (14, 14), {"lower_nonlocality": -sign, "upper_climb": sign})

    def plus_gains():
        gains = (0.51, 0.55, 0.6) if sign > 0 else (0.6, 0.55, 0.51)
        return [
            outcome
            for size, number in zip(("tiny_plus", "small_plus", "base_plus"), gains)
            for outcome in of_size(size, number, 0.5, "accuracy")
        ]

    def throughput():
        values = ("accuracy", "log_speed")
        return [
            *sides(values, ({"name": "convit_small_plus"}, up)),
            *sides(values, ({"name": "deit_base"}, down)),
        ]

    gcvit = {"name": "gcvit_tiny", "locat": LocatSettings()}
    return {
        **{f"locat-{id}": gains(id) for id in pairs},
        **{f"locat-{id}-accuracy": costs(id) for id in pairs},
        "locat-windowed": windowed,
        "locat-gcvit": lambda: locat_on(
            "accuracy", (gcvit, 0.5), ("gcvit_tiny", 0.5 if sign > 0 else 0.8), grid=(56, 56)
        ),
        "locat-dino": dino,
        "locat-widths": lambda: locat_on(
            "widths_near_bounds", ("locatvit_base", 0.01 if sign > 0 else 0.4)
        ),
        "convit-lower-stay": lower_and_upper,
        "convit-gates-shut": lambda: sides(
            "late_gate", ({"name": "convit_small"}, 0.01 if sign > 0 else 0.4)
        ),
        "convit-gates-sizes": lambda: sizes(
            "positional_layers", ["convit"], ("tiny", "small", "base"), sign
        ),
        "convit-sizes-local": lambda: sizes(
            "nonlocality_layer_1", ["convit", "deit"], ("tiny", "base"), sign
        ),
        "convit-sizes-gain": plus_gains,
        "convit-diverse": lambda: of_size("tiny", up, down, "mean_head_diversity"),
        "convit-psa-early": lambda: sides(
            "accuracy_epoch_20",
            ({"name": "convit_base", "gpsa": GpsaSettings(mixing="summed")}, up),
            ({"name": "deit_base"}, down),
        ),
        "convit-throughput": throughput,
    }
