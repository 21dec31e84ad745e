"""List the objectives by the setting of the protocol that asks for them.

Without such a setting a run learns labels. To add an objective, write a module with a subclass of
``Objective``, its settings in protocol/schema.py, and a line here.
"""

from __future__ import annotations

from nearsight.core import UserError
from nearsight.protocol import Protocol
from nearsight.train.objectives.dino import DinoObjective
from nearsight.train.objectives.distill import Distilled
from nearsight.train.objectives.labels import Labels
from nearsight.train.objectives.objective import Objective

OBJECTIVES: dict[str, type[Objective]] = {
    "distillation": Distilled,
    "dino": DinoObjective,
}


def objective_of(protocol: Protocol) -> type[Objective]:
    """Return the objective of a protocol.

    Raises:
        UserError: If it asks for two objectives, or its settings contradict the objective.
    """
    asked = [name for name in OBJECTIVES if getattr(protocol, name) is not None]
    if len(asked) > 1:
        raise UserError(
            f"{protocol.name} asks for {' and '.join(asked)}, but a run has one objective; switch "
            f"one off, for example with --set {asked[0]}=null"
        )
    chosen = OBJECTIVES[asked[0]] if asked else Labels
    chosen.check(protocol)
    return chosen
