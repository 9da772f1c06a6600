"""A tape of releases, for tests: record what went in and came out, or play it back.

Playing back answers the question of the taint test: with the released values held fixed, does
anything later still depend on the rows? It also shows the exact statistics, so a tape is for
tests only; a guarantee made while one runs reads ``testing``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import numpy as np

__all__ = ["Released", "Tape", "is_taped", "on_tape", "taped"]


@dataclass(frozen=True)
class Released:
    """One release: the mechanism, the method, the exact statistic, what came out."""

    mechanism: Any
    method: str
    statistic: Any
    output: Any


@dataclass
class Tape:
    """The releases of a run, in order; with `playback`, their outputs come from that tape."""

    playback: Tape | None = None
    releases: list[Released] = field(default_factory=list)

    def run(self, mechanism: Any, release: Callable[..., Any], value: Any, ledger: Any) -> Any:
        """Make one release, or repeat the recorded one; either way it is charged."""
        statistic = np.array(value, copy=True)
        if self.playback is None:
            output = release(mechanism, value, ledger=ledger)
        else:
            mechanism._charge(ledger)
            output = self.playback.releases[len(self.releases)].output
        self.releases.append(Released(mechanism, release.__name__, statistic, _copy(output)))
        return _copy(output)


_tape: ContextVar[Tape | None] = ContextVar("tape", default=None)


@contextmanager
def taped(playback: Tape | None = None) -> Iterator[Tape]:
    """Record the releases made inside the with-block, or play `playback` back to them."""
    tape = Tape(playback)
    token = _tape.set(tape)
    try:
        yield tape
    finally:
        _tape.reset(token)


def is_taped() -> bool:
    """Whether releases made now are recorded, exact statistics included, or repeated."""
    return _tape.get() is not None


def on_tape(release: Callable[..., Any]) -> Callable[..., Any]:
    """Put a release method on the tape that is running, if one is."""

    @wraps(release)
    def method(self: Any, value: Any, *, ledger: Any) -> Any:
        tape = _tape.get()
        if tape is None:
            return release(self, value, ledger=ledger)
        return tape.run(self, release, value, ledger)

    return method


def _copy(output: Any) -> Any:
    return output.copy() if isinstance(output, np.ndarray) else output
