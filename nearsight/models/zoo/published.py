"""Save our variants of timm's models to the Hugging Face hub and load them from it.

``Published`` comes before timm's class among the bases of a model. The hub stores the options that
a model was created with. Later changes of them (number of classes, image size) are recorded too, so
that a saved model can be loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from huggingface_hub import PyTorchModelHubMixin
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.models.parts import PARTS

TAGS = ["vision-transformer", "locality"]
VARIANTS = {  # a piece of a weight's name, and the option that decides whether a model has it
    **{piece: variant for part in PARTS.values() for piece, variant in part.weights.items()},
    "dist_token": ("a distillation token", "distilled="),
    "reg_token": ("register tokens", "reg_tokens="),
    "rope.": ("rotary positions", "the model's name"),
    "pos_embed": ("positional embeddings", "pos_embed="),
    "fc_norm.": ("a norm after pooling", "global_pool="),
}


class Published(PyTorchModelHubMixin, library_name="nearsight", tags=TAGS):
    """A model that is saved to and loaded from the hub together with its options."""

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Load weights as torch does, but explain in one sentence if they do not fit."""
        model: Any = self
        if strict:
            check_variant(model, state_dict)
        return super().load_state_dict(state_dict, strict, assign)  # type: ignore[misc]

    def reset_classifier(self, num_classes: int, *args: Any, **options: Any) -> None:
        """Replace the head, and record the number of classes for the hub."""
        super().reset_classifier(num_classes, *args, **options)  # type: ignore[misc]
        self._kept_options()["num_classes"] = num_classes

    def set_input_size(self, img_size: Any = None, *args: Any, **options: Any) -> None:
        """Change the image size, and record it for the hub."""
        super().set_input_size(img_size, *args, **options)  # type: ignore[misc]
        if img_size is not None:
            self._kept_options()["img_size"] = img_size

    def _kept_options(self) -> dict[str, Any]:
        """Return the options that are saved to the hub."""
        options: Any = self._hub_mixin_config
        return options


def check_heads(width: Any, heads: Any) -> None:
    """Raise a UserError unless the heads divide the width (in Swin, that of every stage)."""
    stages = heads if isinstance(heads, list | tuple) else [heads]
    for stage, num in enumerate(stages):
        if isinstance(width, int) and isinstance(num, int) and (num < 1 or width * 2**stage % num):
            raise UserError(
                f"width {width * 2**stage} is not divisible by {num} heads; change width or heads"
            )


def check_variant(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Raise a UserError that names the deciding option if weights do not fit a model."""
    own = model.state_dict()
    for piece, (meaning, option) in VARIANTS.items():
        ours, theirs = (next((x for x in y if piece in x), None) for y in (own, weights))
        if (ours is None) != (theirs is None):
            wanted, got = ("with", "without") if ours else ("without", "with")
            raise UserError(
                f"the weights are {got} {meaning}, but the model is {wanted} "
                f"({ours or theirs}); change {option} to match"
            )
    missing, extra = own.keys() - weights.keys(), weights.keys() - own.keys()
    if missing or extra:
        differences = [f"{len(missing)} missing (such as {min(missing)})"] if missing else []
        differences += [f"{len(extra)} unknown (such as {min(extra)})"] if extra else []
        raise UserError(
            f"these are not the {len(own)} weights of this model: {' and '.join(differences)}; "
            "create the model that they were saved from"
        )
    for name, value in own.items():
        if value.shape != weights[name].shape:
            raise UserError(
                f"{name} has the shape {list(weights[name].shape)}, but the model needs "
                f"{list(value.shape)}; create the model with the options of these weights"
            )
