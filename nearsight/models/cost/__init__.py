"""Count what a model costs (parameters, multiply-accumulates, FLOPs) and show it in tables."""

from __future__ import annotations

from nearsight.models.cost.flops import model_cost
from nearsight.models.cost.model_tables import named_cost, own_names, print_cost, print_names

__all__ = ["model_cost", "named_cost", "own_names", "print_cost", "print_names"]
