"""What a party has agreed to and signed: one agreement and one list of parties for each sum."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from sfumato.exceptions import FederationError

__all__ = ["Journal"]


class Journal:
    """Decisions that a party makes once, whatever session or process asks.

    Parameters
    ----------
    folder : path-like, optional
        Where decisions are kept; by default in this process only, for simulations.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self._folder = None if folder is None else Path(folder)
        self._decided: dict[str, str] = {}
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)

    def decide(self, question: str, answer: str, refusal: str) -> None:
        """Write down the answer to a question, or refuse one that differs from the first.

        Parameters
        ----------
        question : str
            What is decided.
        answer : str
            How.
        refusal : str
            What is said where it was decided otherwise before.
        """
        if self._first(question, answer) != answer:
            raise FederationError(refusal)

    def _first(self, question: str, answer: str) -> str:
        if self._folder is None:
            return self._decided.setdefault(question, answer)
        # A digest: the coordinator chooses names and must not choose a path.
        name = hashlib.sha256(question.encode()).hexdigest()[:32]
        aside, path = self._folder / f"{name}.{os.getpid()}", self._folder / f"{name}.decision"
        with aside.open("w", encoding="utf-8") as file:
            file.write(answer)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(aside, path)  # fails where another process was first; never half written
        except FileExistsError:
            return path.read_text(encoding="utf-8")
        finally:
            aside.unlink()
        return answer
