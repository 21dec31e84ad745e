"""The tasks that test frozen features: one file per task, and the table of tasks."""

from __future__ import annotations

from nearsight.evaluate.tasks.all_tasks import TASKS, tasks_named
from nearsight.evaluate.tasks.knn import knn_hits
from nearsight.evaluate.tasks.task import Bench, Kind, Method, Task, TaskNumber, choose_options

__all__ = [
    "TASKS",
    "Bench",
    "Kind",
    "Method",
    "Task",
    "TaskNumber",
    "choose_options",
    "knn_hits",
    "tasks_named",
]
