"""Made-up studies at the scale of every claim, in which it holds or the opposite does."""

import itertools
from dataclasses import replace

from nearsight.protocol import Distillation, GaussianSettings, GpsaSettings, LocatSettings
from nearsight.protocol.fraction import FRACTIONS, at_fraction
from nearsight.protocol.presets import EIGHT, preset
from nearsight.study.analyse.outcome import Outcome
from nearsight.study.claims.paper_tables import PAPER_TABLE_2
from nearsight.study.design.settings import protocol_settings

SEEDS = range(5)
DATA = ("cifar10", "cifar100", "tiny-imagenet")
AS_EVALUATED = {  # method, data and scale of the papers
    "segmentation_miou": ("locat", "ade20k", "random crops"),
    "hummingbird_miou": ("hummingbird", "voc2012"),
    "linear_accuracy": ("dino", "imagenet"),
    "knn_accuracy": ("dino", "imagenet"),
}
MIN_MAD = {name: row["min_mad"] for name, row in PAPER_TABLE_2.items()}


def runs(protocol, grid, values, seeds=SEEDS):
    """A condition; every seed has its own level, which pairing takes away, and a little noise."""
    settings = protocol_settings(protocol, grid)
    for name in {*values} & {*AS_EVALUATED}:
        pairs = zip(("method", "data", "scale"), AS_EVALUATED[name])
        settings |= {f"evaluate.{name}.{part}": x for part, x in pairs}
    salt = sum(map(ord, str(settings)))

    def moved(x, seed):
        return x + 1e-4 * seed + 1e-6 * ((seed + 1) * salt % 11)

    return [
        Outcome({}, seed, {name: moved(x, seed) for name, x in values.items()}, settings)
        for seed in seeds
    ]


def with_model(protocol, **changes):
    return replace(protocol, model=replace(protocol.model, **changes))


def eight(numbers, value, data="cifar100", **others):
    """The eight conditions; ``numbers`` of a condition's name gives its ``value``."""
    numbers = {value: numbers, **others}
    return [
        outcome
        for name in EIGHT
        for outcome in runs(
            preset(name, data), (8, 8), {value: of(name) for value, of in numbers.items()}
        )
    ]


def log_effect(factor, size):
    """Min MAD that CutMix divides by 10 and a factor multiplies by a number."""
    return lambda n: 0.3 * 0.1 ** ("cutmix" in EIGHT[n]) * size ** (factor in EIGHT[n])


def on_datasets(value, sign):
    return [
        outcome
        for data, name in itertools.product(DATA, ("baseline", "modern"))
        for outcome in runs(
            preset(name, data), (8, 8), {value: 0.4 + sign * 0.1 * (name == "modern")}
        )
    ]


def sides(value, *settings_and_numbers, data="imagenet"):
    """Conditions that differ in the model, by the recipe of its paper.

    ``value`` is the name of a number, or several that all have it.
    """
    names = (value,) if isinstance(value, str) else value
    found = []
    for changes, number in settings_and_numbers:
        protocol = with_model(recipe_of(changes["name"], data), **changes)
        found += runs(protocol, (14, 14), dict.fromkeys(names, number))
    return found


def recipe_of(model, data):
    """DeiT's recipe, that of its wider models, or LocAt's."""
    if "deit" in model or "convit" in model:
        return preset("deit_plus" if model.endswith("_plus") else "deit", data)
    return preset("locat" if data == "imagenet" else "locat-small", data, model)


def by_layer(metric, first=4, last=12):
    return tuple(f"{metric}_layer_{number}" for number in range(first, last + 1))


def convit_on_fractions(grows):
    found = []
    for fraction in FRACTIONS:
        protocol = at_fraction(preset("deit", "imagenet"), fraction)
        gain = 1.4 - 0.3 * fraction if grows else 1.1 + 0.3 * fraction
        for name, number in (("deit_small", 0.5), ("convit_small", 0.5 * gain)):
            found += runs(with_model(protocol, name=name), (14, 14), {"accuracy": number})
    return found


def made_up(id, sign):
    """A study in which the claim's number lies as claimed (1) or the opposite (-1)."""
    up, down = 0.5 + 0.1 * sign, 0.5 - 0.1 * sign
    deit, convit = {"name": "deit_small"}, {"name": "convit_small"}
    plus = {"name": "convit_small_plus"}
    gpsa = {
        (gates, start, trained): GpsaSettings(
            train_gates=gates, convolution=start, train_attention=trained
        )
        for gates, start, trained in itertools.product((True, False), repeat=3)
    }

    def rows(one, other, value="accuracy"):
        return sides(value, ({**plus, **one}, up), ({**plus, **other}, down), data="imagenet-100")

    def row(*key):
        return {"gpsa": gpsa[key]}

    vit, locat = {"name": "vit_tiny_patch16_224"}, {"name": "locatvit_tiny"}
    base, locat_base = {"name": "vit_base_patch16_224"}, {"name": "locatvit_base"}
    gap, prr = {**vit, "pool": "avg"}, {**vit, "locat": LocatSettings(gaussian=None)}
    gaug = {**vit, "locat": LocatSettings(refine=False)}
    unscaled = {**locat, "locat": LocatSettings(gaussian=GaussianSettings(strength="one"))}
    none_layers = {"gpsa": GpsaSettings(layers=0)}

    def variant(**changes):
        return {**locat, "locat": LocatSettings(gaussian=GaussianSettings(**changes))}

    bound = 0.0 if sign > 0 else 0.3  # of a null claim
    table = {
        "protocol-thresholds": lambda: eight(
            lambda n: MIN_MAD[n] if sign > 0 else 0.4 - MIN_MAD[n], "min_mad"
        ),
        "protocol-separation": lambda: eight(lambda n: sign * MIN_MAD[n], "min_mad"),
        "protocol-cutmix": lambda: eight(lambda n: sign * MIN_MAD[n], "min_mad"),
        "protocol-cutmix-steps": lambda: eight(lambda n: sign * MIN_MAD[n], "min_mad_equal_steps"),
        "protocol-cutmix-alone": lambda: eight(lambda n: sign * MIN_MAD[n], "min_mad"),
        "protocol-cutmix-entropy": lambda: eight(lambda n: sign * MIN_MAD[n], "min_entropy"),
        "protocol-autoaugment-null": lambda: eight(
            log_effect("autoaugment", 1.0 if sign > 0 else 3.0), "min_mad"
        ),
        "protocol-labelsmoothing-null": lambda: eight(
            log_effect("labelsmoothing", 1.0 if sign > 0 else 1 / 3), "min_mad"
        ),
        "protocol-dissociation": lambda: eight(
            lambda n: 0.5 + 0.05 * sign * len(EIGHT[n] & {"autoaugment", "cutmix"}),
            "accuracy", min_mad=MIN_MAD.get,
        ),
        "protocol-hierarchy": lambda: eight(
            lambda n: 0.1 * sign * (2 if n == "modern" else 1), "mad_rise"
        ),
        "protocol-cutmix-layers": lambda: eight(
            lambda n: sign * MIN_MAD[n], "entropy_layer_1",
            **{f"entropy_layer_{i}": lambda n: sign * MIN_MAD[n] for i in range(2, 8)},
        ),
        "protocol-removal": lambda: eight(lambda n: sign * MIN_MAD[n], "min_mad"),
        "protocol-first-layer": lambda: eight(lambda n: 0.5 if sign > 0 else 3.0, "min_mad_layer"),
        "protocol-whole-first-layer": lambda: eight(
            lambda n: 0.05 if sign > 0 else 0.4, "layer1_max_mad"
        ),
        "protocol-baseline-global": lambda: eight(
            lambda n: 0.4 if sign > 0 else 0.05, "least_layer_mad"
        ),
        "protocol-deep-alike": lambda: eight(
            lambda n: 0.4 - (0.3 if sign < 0 else 0.0) * (n == "modern"), "mad_last_read",
            mad_layer_1=lambda n: 0.4 - 0.3 * (n == "modern"),
        ),
        "protocol-neighbours": lambda: eight(
            lambda n: 0.2 if sign > 0 else 0.9, "min_mad_self_mass"
        ),
        "protocol-most-on-cifar100": lambda: [
            outcome
            for data, name in itertools.product(DATA, ("baseline", "modern"))
            for outcome in runs(
                preset(name, data), (8, 8),
                {"min_mad": 0.4 - (0.2 + 0.1 * sign * (data == "cifar100")) * (name == "modern")},
            )
        ],
        "protocol-modern-local": lambda: on_datasets("min_mad", -sign),
        "protocol-modern-concentrated": lambda: on_datasets("layer1_entropy", -sign),
        "protocol-modern-accuracy": lambda: on_datasets("accuracy", sign),
        "convit-escape": lambda: sides("gpsa_nonlocality", (convit, sign)),
        "convit-pulled": lambda: sides("early_nonlocality", (deit, -sign)),
        "convit-stays": lambda: sides("nonlocality", (convit, down), (deit, up)),
        "convit-gates": lambda: sides("gate_change", (convit, -sign)),
        "convit-data": lambda: convit_on_fractions(sign > 0),
        "convit-accuracy": lambda: sides("accuracy", (convit, up), (deit, down)),
        "convit-convolution": lambda: rows(row(True, True, True), row(True, False, True)),
        "convit-gating": lambda: rows(row(True, True, True), row(False, True, True)),
        "convit-gating-random": lambda: rows(row(False, False, True), row(True, False, True)),
        "convit-gpsa": lambda: rows(row(False, False, True), none_layers),
        "convit-frozen": lambda: sides(
            "accuracy",
            ({**plus, **row(True, True, False)}, 0.5),
            ({**plus, **none_layers}, 0.5 + bound),
            data="imagenet-100",
        ),
        "convit-frozen-random": lambda: rows(row(True, True, True), row(True, False, False)),
        "convit-early": lambda: rows(row(True, True, True), none_layers, "accuracy_epoch_20"),
        "convit-distilled-less": lambda: [
            outcome
            for model, gain in ((convit, 0.02), (deit, 0.02 + 0.01 * sign))
            for taught in (False, True)
            for outcome in runs(
                replace(
                    with_model(preset("deit", "imagenet"), **model, distilled=taught),
                    distillation=Distillation(weights="pretrained") if taught else None,
                ),
                (14, 14), {"accuracy": 0.7 + gain * taught},
            )
        ],
        "convit-layers": lambda: sides(
            "accuracy",
            *(({**plus, "gpsa": GpsaSettings(layers=n)}, 0.5 + 0.01 * sign * n) for n in (0, 3, 9)),
            ({**plus, "gpsa": GpsaSettings()}, 0.5 + 0.1 * sign),
            data="imagenet-100",
        ),
        "convit-strength": lambda: sides(
            "accuracy",
            *(
                ({**plus, "gpsa": GpsaSettings(strength=x)}, 0.5 + 0.1 * sign * x)
                for x in (0.5, 1, 2)
            ),
            data="imagenet-100",
        ),
        "convit-psa": lambda: sides(
            "accuracy",
            ({"name": "convit_base", "gpsa": GpsaSettings(mixing="summed")}, down),
            ({"name": "deit_base"}, up),
        ),
        "convit-distilled": lambda: [
            *sides("nonlocality", (deit, up)),
            *runs(
                replace(
                    with_model(preset("deit", "imagenet"), **deit, distilled=True),
                    distillation=Distillation(weights="pretrained"),
                ),
                (14, 14), {"nonlocality": down},
            ),
        ],
        "locat-small-data": lambda: runs_of_cifar(sign),
        "locat-no-cost": lambda: sides("accuracy", (locat, 0.5), (vit, 0.51 if sign > 0 else 0.6)),
        "locat-parts": lambda: sides(
            "accuracy", (vit, 0.5), (gaug, up), (prr, up), (locat, 0.5 + 0.2 * sign)
        ),
        "locat-prr-gap-accuracy": lambda: sides("accuracy", (prr, up), (gap, down)),
        "locat-prr-gap": lambda: sides("segmentation_miou", (prr, up), (gap, down)),
        "locat-segmentation": lambda: sides("segmentation_miou", (locat, up), (vit, down)),
        "locat-hummingbird": lambda: sides("hummingbird_miou", (locat, up), (vit, down)),
        "locat-neighbours": lambda: sides(
            by_layer("locality_score"), (locat_base, up), (base, down)
        ),
        "locat-class-token": lambda: sides(
            by_layer("cls_similarity"), (locat_base, down), (base, up)
        ),
        "locat-class-rises": lambda: runs(
            with_model(recipe_of(base["name"], "imagenet"), **base), (14, 14),
            {"cls_similarity_layer_4": down, "cls_similarity_layer_12": up},
        ),
        "locat-mini": lambda: sides("accuracy", (locat, up), (vit, 0.5), data="mini-imagenet"),
        "locat-fixed-width": lambda: sides(
            "accuracy", (locat, up), (variant(width=1.0), down), data="mini-imagenet"
        ),
        "locat-isotropic": lambda: sides(
            "accuracy", (locat, 0.5), (variant(isotropic=True), 0.5 + bound), data="mini-imagenet"
        ),
        "locat-auto-strength": lambda: sides(
            "accuracy", (locat, 0.5), (variant(strength="auto"), 0.5 + bound), data="mini-imagenet"
        ),
        "locat-gap-dense": lambda: sides(
            "segmentation_miou", ({**base, "pool": "avg"}, down), (base, up)
        ),
        "locat-kernel": lambda: sides(
            "segmentation_miou", (locat, up), (variant(kernel="laplace"), down),
            (variant(kernel="inverse"), down),
        ),
        "locat-positions": lambda: sides(
            "accuracy", ({**locat, "positions": False}, up), (vit, down)
        ),
        "locat-positions-dense": lambda: sides(
            "segmentation_miou", ({**locat, "positions": False}, up), (vit, down)
        ),
        "locat-strength": lambda: sides(
            "accuracy", (locat, up), (unscaled, down), data="mini-imagenet"
        ),
    }  # fmt: skip
    from study.further_studies import further  # it uses the helpers of this file

    return (table | further(sign))[id]()


def mixed(id):
    """A study in which the claim holds in some seeds and the opposite in the others."""
    as_claimed, opposite = made_up(id, 1), made_up(id, -1)
    return [x for x in as_claimed if x.seed % 2] + [x for x in opposite if not x.seed % 2]


FACTS = {  # claims that no seed can change: numbers as claimed, the opposite, and not known
    "protocol-identity": tuple(
        {f"self_mass_{name}": x for name in EIGHT if "cutmix" in EIGHT[name]} for x in (0.1, 0.9)
    ),
    "protocol-independence": (
        {"with_cutmix": 0.2, "without_cutmix": -0.4},
        {"with_cutmix": -1.0, "without_cutmix": -0.4},
    ),
    "locat-parameters": (
        {"added_parameters_tiny": 2340.0, "added_parameters_base": 2340.0},
        {"added_parameters_tiny": 2340.0, "added_parameters_base": 9000.0},
    ),
    "locat-flops": (
        {"added_operations_tiny": 0.01, "added_operations_base": 0.001},
        {"added_operations_tiny": 0.2, "added_operations_base": 0.001},
    ),
}


def runs_of_cifar(sign):
    protocol = recipe_of("locatvit_tiny", "cifar100")
    return [
        outcome
        for name, number in (("locatvit_tiny", 0.5 + 0.1 * sign), ("vit_tiny_patch16_224", 0.5))
        for outcome in runs(with_model(protocol, name=name), (14, 14), {"accuracy": number})
    ]
