"""Weights of another variant: one sentence instead of torch's list of every name."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

PARTS = {  # a piece of a weight's name, and the option that decides whether a model has it
    ".gaug.log_var": ("GAug with a predicted width", "gaussian="),
    ".gaug.log_alpha": ("GAug with a learned strength", "gaussian="),
    ".gating_param": ("GPSA", "gpsa="),
    "dist_token": ("a distillation token", "distilled="),
    "norm_patches.": ("Jumbo's refinement", "refine="),
    "reg_token": ("register tokens", "reg_tokens="),
    "rope.": ("rotary positions", "the model's name"),
    "pos_embed": ("positional embeddings", "pos_embed="),
    "fc_norm.": ("a norm after pooling", "global_pool="),
}


def check_variant(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """ValueError if these weights are not this model's."""
    own = model.state_dict()
    for part, (meaning, option) in PARTS.items():
        ours, theirs = (next((x for x in y if part in x), None) for y in (own, weights))
        if (ours is None) != (theirs is None):
            wanted, got = ("with", "without") if ours else ("without", "with")
            raise ValueError(
                f"expected weights {wanted} {meaning}, got weights {got} "
                f"({ours or theirs}); change {option} to match"
            )
    missing, extra = own.keys() - weights.keys(), weights.keys() - own.keys()
    if missing or extra:
        found = [f"{len(missing)} missing (such as {min(missing)})"] if missing else []
        found += [f"{len(extra)} unknown (such as {min(extra)})"] if extra else []
        raise ValueError(f"expected {len(own)} weights of this model, got {' and '.join(found)}")
    for name, value in own.items():
        if value.shape != weights[name].shape:
            raise ValueError(
                f"expected {name} of shape {list(value.shape)}, got {list(weights[name].shape)}"
            )
