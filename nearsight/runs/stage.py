"""Define what a stage of a run is, such as training, measuring or evaluating.

A stage works in a run folder and writes one file there. The command line, a study and the tests run
it through the same function. Stages are declared in their own rooms (``TRAIN_STAGE`` in train,
``MEASURE_STAGE`` in measure, ``CAUSAL_STAGE`` and ``EVALUATE_STAGE`` in evaluate). The table of
stages that a study may run is in study/design/stages.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

from nearsight.core import UserError, suggestion

CIRCUMSTANCES = (
    "data_root",
    "progress",
    "reporter",
    "trackers",
    "out",
    "force",
)  # arguments that do not change a result
RUN = ("protocol", "seed", "device")  # what defines a run besides the settings of its stages


@dataclass(frozen=True)
class Stage:
    """A stage: its name, the file that it writes into the run folder, and its function.

    Args:
        name: Its name on the command line and in a recipe.
        output: The file that it writes into the run folder.
        function: Called with keyword arguments: the run folder and the settings. Its signature
            defines the settings and their defaults.
        folder: The argument of ``function`` that takes the run folder.
        kept: The files of the stage that an exported study keeps; by default ``output``.
        ended: A function that returns whether the stage has ended in a folder; by default, it has
            ended if ``output`` exists.
        joint: Whether all processes of a cell that torchrun starts run the stage together, or only
            one of them.
    """

    name: str
    output: str
    function: Callable[..., Path]
    folder: str = "path"
    kept: tuple[str, ...] | None = None
    ended: Callable[[Path], bool] | None = None
    joint: bool = False

    def run(self, folder: Path, settings: Mapping[str, Any]) -> Path:
        """Run the stage in a run folder and return the path of what it wrote."""
        self.function(**{self.folder: Path(folder)}, **settings)
        return Path(folder) / self.output

    def is_finished(self, folder: Path) -> bool:
        """Return whether the stage has ended in a folder."""
        return self.ended(folder) if self.ended else (Path(folder) / self.output).is_file()

    @property
    def exported(self) -> tuple[str, ...]:
        """Return the files of a finished stage that an export keeps."""
        return (self.output,) if self.kept is None else self.kept

    @property
    def defaults(self) -> dict[str, Any]:
        """Return every setting that the stage takes, with its default."""
        taken = inspect.signature(self.function).parameters.values()
        return {each.name: each.default for each in taken if each.name != self.folder}

    def complete(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return all settings that decide the numbers of this stage, as plain values for JSON.

        The result leaves out the settings of the run itself (RUN) and those that do not change a
        result (CIRCUMSTANCES).

        Args:
            settings: The settings that differ from the defaults.

        Raises:
            UserError: If the stage does not take one of the settings.
        """
        known = {
            name: value
            for name, value in self.defaults.items()
            if name not in (*RUN, *CIRCUMSTANCES)
        }
        for name in settings:
            if name not in known:
                raise UserError(
                    f"the stage {self.name} has no setting {name!r}; its settings are "
                    f"{', '.join(known) or 'none'}{suggestion(name, known)}"
                )
        return {name: _plain(value) for name, value in (known | dict(settings)).items()}

    def pick(self, offered: Mapping[str, Any]) -> dict[str, Any]:
        """Return the offered values that are settings of the stage."""
        return {name: value for name, value in offered.items() if name in self.defaults}


def _plain(value: Any) -> Any:
    """Turn tuples into lists and dataclasses into dictionaries, as JSON would return them."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, tuple | list) else value
