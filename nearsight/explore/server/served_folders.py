"""Find, read and load the runs in the served folders, and nothing outside of them.

A request names a run by a hash of its name, so that no request contains a path. Weights are loaded
only from safetensors files inside the folders, and only into models that need no network.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

from nearsight.core import UserError
from nearsight.explore.exploration import Exploration
from nearsight.explore.folders import find_folders, inside
from nearsight.explore.runs_table import run_rows, study_contents
from nearsight.explore.shown_model import NUM_SHOWN, ShownModel, subject_of_folder, subject_of_model
from nearsight.runs import EXAMPLES, LOG, MEASURE, RECORD, WEIGHTS, LoadedRun, load_run, read_record
from nearsight.runs.records import TrainedRun

MAX_LOADED = 2  # models kept in memory
NEEDS_NETWORK = ("hf/",)  # prefixes of models that may be fetched from a hub
READ = (EXAMPLES, LOG, MEASURE, RECORD)


class Unknown(LookupError):
    """No run has the requested key."""


def run_key(name: str) -> str:
    """Return the key by which requests name a run.

    >>> run_key("runs/a")
    '7c3ea94701224bf1'
    """
    return hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:16]


class ServedFolders:
    """All runs and studies below some folders."""

    def __init__(self, roots: Sequence[Path], data_root: Path | None = None) -> None:
        for root in roots:
            if not Path(root).is_dir():
                raise UserError(f"{root} is not a folder, so it cannot be served; give a folder")
        self.roots = tuple(Path(root).resolve() for root in roots)
        self.data_root = data_root
        self._loaded: OrderedDict[Path, LoadedRun] = OrderedDict()
        self._lock = Lock()  # one model computes at a time

    @property
    def title(self) -> str:
        """The names of the served folders."""
        return " and ".join(root.name for root in self.roots)

    def contents(self) -> dict[str, Any]:
        """Read and return the tables of all runs and studies; attention is requested run by run."""
        found = find_folders(self.roots)
        rows = run_rows({name: x for name, x in found.runs.items() if self.is_safe(x)})
        for row in rows:
            row["key"] = run_key(row["name"])
        studies = tuple(study_contents(name, folder) for name, folder in found.studies.items())
        return Exploration(self.title, (), tuple(rows), studies).contents()

    def model(self, key: str) -> dict[str, Any]:
        """Return the data of one run for the page."""
        name, folder = self._folder(key)
        subject = replace(subject_of_folder(folder), name=name)
        if subject.examples is None:
            subject = self._with_test_images(folder, subject)
        return subject.contents() | {"key": key}

    def see(self, key: str, picture: Any) -> dict[str, Any]:
        """Run the model of a run on an image, and return its attention as in examples.json."""
        from nearsight.data.input import Preprocessing
        from nearsight.explore.images import picture_image

        name, folder = self._folder(key)
        with self._lock:
            run = self._run(folder)
            size, data = run.transform.image_size, run.record.data
            steps = Preprocessing("the run's own", size, size, mean=data.mean, std=data.std)
            found = subject_of_model(name, run.model, picture_image(picture, "yours", steps), 1)
        assert found.examples is not None
        return found.examples

    def is_safe(self, folder: Path) -> bool:
        """Tell whether all files of a run lie inside the served folders."""
        present = [folder / name for name in READ if (folder / name).exists()]
        return all(any(inside(path, root) for root in self.roots) for path in present)

    def _folder(self, key: str) -> tuple[str, Path]:
        for name, folder in find_folders(self.roots).runs.items():
            if run_key(name) == key and self.is_safe(folder):
                return name, folder
        raise Unknown(key)

    def _run(self, folder: Path) -> LoadedRun:
        """Load the model of a run. Raise an error if that could need a file from elsewhere."""
        if folder in self._loaded:
            self._loaded.move_to_end(folder)
            return self._loaded[folder]
        record = read_record(folder)
        if not isinstance(record, TrainedRun):
            raise UserError("this folder contains a measurement, but no weights")
        if not any(inside(folder / WEIGHTS, root) for root in self.roots):
            raise UserError("this run has no weights in the folders that are served")
        if record.model.name.startswith(NEEDS_NETWORK):
            raise UserError("the server does not load models that may need a download from a hub")
        run = load_run(folder)
        self._loaded[folder] = run
        if len(self._loaded) > MAX_LOADED:
            self._loaded.popitem(last=False)
        return run

    def _with_test_images(self, folder: Path, subject: ShownModel) -> ShownModel:
        """Add attention on images of the run's own data set, if that is a known one and present."""
        from nearsight.data.sets import list_datasets, load_dataset
        from nearsight.explore.images import run_images

        try:
            with self._lock:
                run = self._run(folder)
                known = [x.name for x in list_datasets(self.data_root) if x.state != "missing"]
                if run.protocol.data.name not in known:  # a folder may be anywhere
                    return subject
                dataset = load_dataset(run.protocol.data, self.data_root)
                seen = subject_of_model(
                    subject.name, run.model, run_images(run, dataset, NUM_SHOWN)
                )
        except UserError as error:
            return replace(subject, note=f"{subject.note} The server cannot compute it: {error}.")
        numbers = subject.numbers or seen.numbers
        return replace(subject, examples=seen.examples, numbers=numbers, note="")
