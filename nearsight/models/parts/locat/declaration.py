"""LocAt, declared as a part: Gaussian-augmented attention and patch refinement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from torch import Tensor, nn

from nearsight.models.layers import SeparableBias
from nearsight.models.parts.locat.gaussian import Gaussian
from nearsight.models.parts.locat.locat import add_locat, has_locat
from nearsight.models.parts.locat.refinement import Refine, refine
from nearsight.models.parts.locat.widths import WidthReadOut
from nearsight.models.parts.part import (
    CostCounts,
    CostHook,
    CostText,
    FeaturePlace,
    GentleStart,
    Part,
    WeightOwner,
)
from nearsight.protocol import LocatChoice, LocatSettings, gaussian_settings, locat_settings


class KernelCost(CostHook):
    """Count the element-wise work of the Gaussian kernel."""

    def enter(self, counts: CostCounts) -> None:
        """Begin to count element-wise operations."""
        counts.elementwise = True

    def leave(self, counts: CostCounts, args: tuple[Any, ...], output: Any) -> None:
        """Add two operations per pair of patches: multiply the factors, and add the product."""
        counts.elementwise = False
        if isinstance(output, SeparableBias):
            counts.kernel_operations += 2 * output.rows.numel() * output.cols.shape[-1]
        else:
            counts.kernel_operations += output.numel()


class RefineCost(CostHook):
    """Count the multiply-accumulates that PRR saves, because the head does not read all tokens."""

    def __init__(self) -> None:
        self.before = 0

    def enter(self, counts: CostCounts) -> None:
        """Remember the number counted before PRR runs."""
        self.before = counts.macs

    def leave(self, counts: CostCounts, args: tuple[Any, ...], output: Any) -> None:
        """Add what PRR would cost for all tokens, minus what was computed."""
        (x,) = args
        whole = 2 * len(x) * x.shape[1:-1].numel() ** 2 * x.shape[-1]
        counts.skipped_macs += whole - (counts.macs - self.before)


def title_in(model: nn.Module) -> str | None:
    """Return LocAt if the model has it, else None."""
    return "LocAt" if has_locat(model) else None


def choose(choice: LocatChoice) -> LocatSettings | None:
    """Return the settings, or None if both parts of LocAt are off."""
    settings = locat_settings(choice)
    return settings if settings and (settings.gaussian or settings.refine) else None


def override(settings: LocatSettings | None, given: dict[str, Any]) -> LocatSettings | None:
    """Return the settings, changed by the options ``gaussian`` and ``refine``."""
    gaussian = given.get("gaussian", settings.gaussian if settings else None)
    refine = given.get("refine", settings.refine if settings else False)
    return choose(LocatSettings(gaussian=gaussian_settings(gaussian), refine=bool(refine)))


def install(model: nn.Module, settings: LocatSettings) -> nn.Module:
    """Add LocAt to a model, initialised as published."""
    return add_locat(model, settings.gaussian, settings.refine, published_start=True)


def class_options(choice: LocatChoice) -> dict[str, Any]:
    """Return the options of a published class as plain values, which the hub can save."""
    settings = locat_settings(choice)
    if settings is None:
        return {"gaussian": False, "refine": False}
    gaussian = asdict(settings.gaussian) if settings.gaussian else False
    return {"gaussian": gaussian, "refine": settings.refine}


def refined_reader(model: nn.Module) -> Callable[[Tensor], Tensor] | None:
    """Return the patch refinement of a model as a function of its tokens after the final norm."""
    heads = [module.num_heads for module in model.modules() if isinstance(module, Refine)]
    if not heads:
        return None

    def read(tokens: Tensor) -> Tensor:
        rows = tokens.flatten(1, 2) if tokens.ndim == 4 else tokens  # [image, token, width]
        return refine(rows, heads[0]).reshape(tokens.shape)

    return read


def start_gently(model: nn.Module) -> None:
    """Initialise the Gaussians so weak that a trained model does not change."""
    for module in model.modules():
        if isinstance(module, Gaussian):
            module.start(gentle=True)


TRAINED_SIZE = 224  # side of the images, in pixels, that the published models were trained on

LOCAT_PART = Part(
    name="locat",
    titles=("LocAt",),
    choose=choose,
    install=install,
    attention_in=lambda settings: "GAug" if settings.gaussian else None,
    title_in=title_in,
    without={"locat": {"gaussian": False, "refine": False}},
    options=("gaussian", "refine"),
    override=override,
    class_options=class_options,
    resized={"trained_size": TRAINED_SIZE},
    weights={
        ".gaug.log_var": WeightOwner("GAug with a predicted width", "gaussian="),
        ".gaug.log_alpha": WeightOwner("GAug with a learned strength", "gaussian="),
        "norm_patches.": WeightOwner("Jumbo's refinement", "refine="),
    },
    gentle_start=GentleStart("GAug", ".gaug.", "start near strength 0", start_gently),
    skipped={Refine: "it is patch refinement, which pools for the head and is not a layer"},
    costs={Gaussian: KernelCost, Refine: RefineCost},
    cost_rows={"kernel_operations": "Gaussian kernel"},
    cost_text=CostText(
        paper_unit=", PRR for all tokens",
        flops=", and the Gaussian kernel's element-wise work; of PRR what the head reads",
    ),
    read_out=WidthReadOut,
    feature_place=FeaturePlace("prr", "PRR", refined_reader),
)
