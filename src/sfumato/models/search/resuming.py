"""A folder from which an interrupted search goes on: all runs are in it, and K is in none.

All `max_runs` runs are made before K is drawn, so the folder says nothing of K. It holds the
scores so far and those models that may still win, is as secret as the rows, and is emptied when the
winner is known: then it holds the winner alone, which is released once.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from sfumato.core.atomic_file import atomic_write
from sfumato.exceptions import InvalidInputError
from sfumato.models.saving import load, save

STATE = "search.json"
WINNER = "winner.sfumato"


class SearchFolder:
    """The state of one search.

    path: A folder; it is made where there is none.
    settings: Everything public that the search depends on; another search is refused.
    """

    def __init__(self, path: str | os.PathLike[str], settings: dict[str, Any]) -> None:
        self.path = Path(path)
        self.state: dict[str, Any] = {}
        self._digest = sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()

    def __enter__(self) -> Self:
        """Hold the folder, for this process alone, and read it."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._held = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)  # [V11] ends with the process
            self._begin()
        except BaseException as error:
            os.close(self._held)
            if isinstance(error, BlockingIOError):
                raise InvalidInputError(
                    f"'resume': another search is using the folder {self.path}. Wait until it "
                    "ends; the same call then returns its winner."
                ) from None
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._held)

    def _begin(self) -> None:
        self.state = self._read() or {
            "settings": self._digest,
            "reference": uuid.uuid4().hex,
            "charged": False,
            "choices": [],
            "scores": [],
            "kept": [],
            "winner": None,
        }
        if self.state["settings"] != self._digest:
            raise InvalidInputError(
                f"'resume': the folder {self.path} contains a search with other settings. Give "
                "another folder, or the settings of that search."
            )

    def _read(self) -> dict[str, Any] | None:
        try:
            state = json.loads((self.path / STATE).read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            raise InvalidInputError(f"'resume': {self.path / STATE} cannot be read.") from None
        if not isinstance(state, dict) or "settings" not in state:
            raise InvalidInputError(f"'resume': {self.path / STATE} contains no search.")
        if state.pop("checksum", None) != _checksum(state):
            raise InvalidInputError(f"'resume': {self.path / STATE} is damaged.")
        return state

    def write(self, **changes: Any) -> None:
        """Write the state, aside and renamed."""
        self.state.update(changes)
        with atomic_write(self.path / STATE) as file:
            stored = self.state | {"checksum": _checksum(self.state)}
            file.write(json.dumps(stored, sort_keys=True).encode())

    def require_storable(self, model: Any) -> None:
        """Refuse, before anything is charged, a model that could not be written."""
        probe = self.path / "probe.sfumato"
        save(model, probe)
        probe.unlink()

    def keep(self, models: dict[int, Any]) -> None:
        """Write models that may still win, by the number of their run."""
        for run, model in models.items():
            save(model, self._model(run))

    def model(self, run: int) -> Any:
        """Read the model of a run."""
        return load(self._model(run))

    def finish(self, model: Any, score: float, choice: int) -> None:
        """Keep the winner, under no number, and remove all that is not released."""
        save(model, self.path / WINNER)
        released = {"score": score, "choice": choice}
        self.write(winner=released, scores=[], choices=[], kept=[])
        for path in self.path.glob("run-*.sfumato"):
            path.unlink()

    def winner(self) -> Any:
        """Read the model that was released."""
        return load(self.path / WINNER)

    def _model(self, run: int) -> Path:
        return self.path / f"run-{run}.sfumato"


def _checksum(state: dict[str, Any]) -> str:
    return sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
