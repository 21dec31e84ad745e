"""Build one model with random weights, measure it, and say in one row what came of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from nearsight.core import UserError
from nearsight.measure.profile import measure_model
from nearsight.models.compat import declare_missing_ops

SIDES = (96, 128, 224, 256)  # of the images, in this order
SMALL = {
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
}


@dataclass(frozen=True)
class Row:
    """What came of one model. ``outcome`` is "measured", "refused" or "crashed"."""

    model: str
    outcome: str
    image_side: int | None = None
    num_layers: int = 0
    proof_error: float | None = None
    gap: float | None = None  # the smallest one of the layers whose places were found
    reason: str = ""  # of a refusal, of a crash, or of layers that were left out
    seconds: float = 0.0

    def contents(self) -> dict[str, Any]:
        return asdict(self)


def try_model(name: str) -> Row:
    """Measure a model with random weights on two images of noise.

    The smallest image that the model takes is used. Nothing is downloaded.
    """
    torch.manual_seed(0)
    began, problem = time.perf_counter(), "no image size was tried"
    for side, model in _builds(name):
        images = torch.randn(2, 3, side, side)
        try:
            with torch.no_grad():
                model.eval()(images)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            continue
        row = _measure(name, model, images)
        return Row(**{**asdict(row), "seconds": time.perf_counter() - began})
    return Row(name, "crashed", reason=f"no image size fits ({problem[:200]})")


def _measure(name: str, model: nn.Module, images: torch.Tensor) -> Row:
    side = images.shape[-1]
    try:
        profile = measure_model(model, images, metrics=("mad",))
    except UserError as error:
        return Row(name, "refused", side, reason=str(error))
    except Exception as error:
        return Row(name, "crashed", side, reason=f"{type(error).__name__}: {error}"[:300])
    gaps = [float(x.note.split("gap ")[1].split(" ")[0]) for x in profile.layers
            if x.note and "gap " in x.note]  # fmt: skip
    left_out: dict[str, int] = {}
    for _, reason in profile.skipped:
        left_out[reason] = left_out.get(reason, 0) + 1
    reason = "; ".join(f"{num} left out: {text}" for text, num in left_out.items())
    return Row(
        name,
        "measured",
        side,
        len(profile.layers),
        max(x.proof_error for x in profile.layers),
        min(gaps, default=None),
        reason,
    )


def _builds(name: str) -> Iterator[tuple[int, nn.Module]]:
    """The model for one image size after another."""
    declare_missing_ops()
    library, _, rest = name.partition("/")
    builders = {"timm": _timm, "torchvision": _torchvision, "hf": _hugging_face}
    yield from builders[library](rest)


def _timm(name: str) -> Iterator[tuple[int, nn.Module]]:
    import timm

    own = timm.get_pretrained_cfg(name)
    fixed = (own.input_size[-1],) if own else ()
    for side in dict.fromkeys((*SIDES, *fixed)):
        try:
            yield side, timm.create_model(name, img_size=side)
        except Exception:
            try:
                yield side, timm.create_model(name)
            except Exception:
                continue


def _torchvision(name: str) -> Iterator[tuple[int, nn.Module]]:
    from torchvision.models import get_model

    for side in (*SIDES, 299):
        options: dict[str, dict[str, Any]] = {
            "vit_b_16": {"image_size": side},
            "maxvit_t": {"input_size": (side, side)},
        }
        extra = {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
        try:
            yield side, get_model(name, weights=None, **options.get(name, extra))
        except Exception:
            continue


def _hugging_face(kind: str) -> Iterator[tuple[int, nn.Module]]:
    from transformers import AutoConfig, AutoModel

    for side in SIDES:
        for small in (True, False):
            try:
                config = AutoConfig.for_model(kind)
                if hasattr(config, "image_size") and isinstance(config.image_size, int):
                    config.image_size = side
                for key, value in SMALL.items() if small else ():
                    if isinstance(getattr(config, key, None), int):
                        setattr(config, key, value)
                config.use_pretrained_backbone = False
                yield side, AutoModel.from_config(config)
            except Exception:
                continue
