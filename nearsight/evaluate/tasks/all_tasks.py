"""List the tasks by name. To add one, write a module with a ``Task`` and add a line here."""

from __future__ import annotations

from nearsight.core import UserError, suggestion
from nearsight.evaluate.tasks.class_attention import CLASS_ATTENTION
from nearsight.evaluate.tasks.knn import KNN
from nearsight.evaluate.tasks.linear import LINEAR
from nearsight.evaluate.tasks.occlusion import OCCLUSION
from nearsight.evaluate.tasks.segmentation import SEGMENTATION
from nearsight.evaluate.tasks.task import Task

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        SEGMENTATION,
        KNN,
        LINEAR,
        OCCLUSION,
        CLASS_ATTENTION,
    )
}  # fmt: skip


def tasks_named(text: str) -> list[Task]:
    """Return the tasks with the given names, which are separated by commas.

    Raises:
        UserError: If a name is unknown.
    """
    found = []
    for name in (word.strip() for word in text.split(",")):
        if name not in TASKS:
            raise UserError(
                f"there is no task {name!r}; the tasks are {', '.join(TASKS)}"
                f"{suggestion(name, TASKS)}"
            )
        found.append(TASKS[name])
    return found
