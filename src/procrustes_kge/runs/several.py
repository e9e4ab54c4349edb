"""Several trainings for one purpose, such as a table: what is done is not done again, and what was stopped goes on.

FOLDER/NAME.json     the report of a training that is done
FOLDER/NAME/         the checkpoints of the one that was stopped
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from procrustes_kge.errors import DamagedFolderError, in_one_line
from procrustes_kge.runs.checkpoints import FolderCheckpoints, Interval
from procrustes_kge.runs.jobs import remove
from procrustes_kge.system.files import read_json, write_json_atomically
from procrustes_kge.training.checkpoints import Checkpoints, Stopped

Report = dict[str, Any]


def read_report(file: Path) -> Report:
    """Return the report of a training that is done."""
    try:
        return read_json(file)
    except (OSError, ValueError) as error:
        reason = in_one_line(error)
        raise DamagedFolderError(f"{file}: damaged ({reason}); delete it to train this again", reason) from error


class Several:
    """Trainings by their names, in a folder."""

    def __init__(self, folder: Path, every: Interval | None = None) -> None:
        self.folder, self.every = folder, every
        self.stop_asked = False
        self.running: FolderCheckpoints | None = None

    def stop(self) -> None:
        """Ask the training that runs, or the next one, to stop where it can go on."""
        self.stop_asked = True
        if self.running is not None:
            self.running.stop()

    def report(self, name: str, train: Callable[[Checkpoints], Report]) -> Report:
        """Return the report of a training, which is trained unless that is done."""
        done = self.folder / f"{name}.json"
        if done.exists():
            return read_report(done)
        if self.stop_asked:
            raise Stopped
        self.running = FolderCheckpoints(self.folder / name, self.every)
        report = train(self.running)
        write_json_atomically(done, report)
        remove(self.running.folder)
        self.running = None
        return report
