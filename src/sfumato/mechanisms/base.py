"""What all mechanisms share: an event, a charge before every draw, a public grid, a tape for tests.

The tape records what went into releases and came out, or plays it back. That answers the question
of the taint test: with the released values held fixed, does anything later still depend on the
rows? It also shows exact statistics, so it is for tests only; a guarantee made while one runs reads
``testing``.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.core.memory import RELEASED_COPIES, require_memory
from sfumato.exceptions import InvalidInputError, InvalidTypeError, LedgerError
from sfumato.ledger.receipt import Chargeable, Receipt, prepay
from sfumato.mechanisms.entropy import is_seeded
from sfumato.mechanisms.sampling import Law, bernoulli, require_scale, rounded_noise
from sfumato.privacy.events import Event
from sfumato.privacy.guarantee import Relation, Status, Unit

MIN_CELLS = 2.0**27  # a noise scale spans at least this many cells ...
MAX_CELLS = 2.0**40  # ... and at most this many, or draws get slow
MAX_ENLARGEMENT = 2.0**-7  # the share of the sensitivity that rounding should cost at most
SMALL = 2**16  # numbers of a release for which memory is not asked
ROUNDED_UP = 1 + 2.0**-50  # more than the arithmetic of a scale takes away


class Mechanism(ABC):
    """A release with noise. Its fields are public; the statistic is only ever an argument.

    A mechanism that protects one unit or relation only says so in `unit` and `relation`, and a
    budget that counts in others refuses its charge. For the rest the caller's sensitivity decides.
    """

    unit: ClassVar[Unit | None] = None
    relation: ClassVar[Relation | None] = None
    # Norm of its sensitivity: 1, the sum of magnitudes; 2, Euclidean; "part", the sum of
    # magnitudes over one table, column or other part of the statistic, the largest of them.
    norm: ClassVar[int | str] = 2

    def __init_subclass__(cls, **options: Any) -> None:
        """Put every release method on the tape, so that none can be forgotten by a test."""
        super().__init_subclass__(**options)
        for name, method in list(vars(cls).items()):
            if name.startswith("release"):
                setattr(cls, name, on_tape(method))

    @abstractmethod
    def event(self) -> Event:
        """Describe one release without data.

        Returns
        -------
        Event
            What a ledger writes down.
        """

    @abstractmethod
    def variance(self) -> float:
        """Variance of the noise on one coordinate, before what rounding to the grid adds.

        Returns
        -------
        float
            The variance.
        """

    def release(self, value: Any, *, ledger: Chargeable | None) -> Any:
        """Charge the ledger, then draw.

        Parameters
        ----------
        value : array-like
            The exact statistic.
        ledger : DatasetBudget, Receipt or None
            Who pays; None if nothing records the charge.

        Returns
        -------
        ndarray
            What is released.
        """
        raise NotImplementedError

    def for_size(self, size: int) -> Self:
        """Return this mechanism, or refuse by public numbers what cannot be drawn exactly.

        Parameters
        ----------
        size : int
            Numbers of the statistic.

        Returns
        -------
        Mechanism
            The mechanism itself, for a check before the charge.
        """
        self.grid(size)
        if size > SMALL:
            require_memory(RELEASED_COPIES * float(size), f"A release of {size:,} numbers")
        return self

    def grid(self, size: int) -> tuple[float, float] | None:  # noqa: ARG002
        """Return the step of the public grid and the scale of the noise, rounding paid for.

        Parameters
        ----------
        size : int
            Numbers of the statistic.

        Returns
        -------
        tuple of float or None
            Both are public; None without noise.
        """
        return None

    def _charge(self, ledger: Chargeable | None, size: int = 0) -> None:
        """Pay for one release of `size` numbers; raises before any noise is drawn.

        What a receipt stands for was asked for its memory when it was paid (`for_size`); after
        that nothing is refused.
        """
        if size and not isinstance(ledger, Receipt):
            self.for_size(size)
        prepay(ledger, self.event(), unit=self.unit, relation=self.relation)


def noise_status() -> Status:
    """Return the status of a release made now: "testing" while noise is seeded or on tape."""
    # On tape exact statistics are recorded, or releases repeated.
    return Status.TESTING if is_seeded() or _tape.get() is not None else Status.PROVED


def require_sensitivity(sensitivity: float) -> float:
    """Check a sensitivity: finite and positive."""
    value = float(sensitivity)
    if not (math.isfinite(value) and value > 0):
        raise InvalidInputError(f"'sensitivity' must be finite and positive. Got {sensitivity}.")
    return value


def require_epsilon(epsilon: float) -> float:
    """Check an epsilon: positive; infinity stands for no noise."""
    if not isinstance(epsilon, Real):
        raise InvalidTypeError(f"'epsilon' must be a number. Got {type(epsilon).__name__} instead.")
    value = float(epsilon)
    if not value > 0:
        raise InvalidInputError(f"'epsilon' must be positive. Got {epsilon} instead.")
    return value


# The public grid on which released numbers lie -------------------------------------------------


def grid_step(scale: float, *, sensitivity: float, spread: float) -> float:
    """Choose the step of the grid, a power of two, from public numbers alone."""
    if not 2.0**-900 < scale < 2.0**900:  # doubles do not hold its grid
        raise InvalidInputError(
            f"The noise scale {scale:g} is out of the range that can be drawn; rescale the data."
        )
    wanted = min(scale / MIN_CELLS, MAX_ENLARGEMENT * sensitivity / max(spread, 1.0))
    return 2.0 ** math.floor(math.log2(max(wanted, scale / MAX_CELLS)))


def grid_of(
    sensitivity: float, spread: float, *, times: float = 1.0, over: float = 1.0, more: float = 0.0
) -> tuple[float, float]:
    """Return step and scale of noise ``times / over`` sensitivities large; refuse what is inexact.

    A statistic rounded to the grid has a sensitivity larger by ``step * spread``, and by `more`
    where it was rounded before.
    """
    step = grid_step(sensitivity * times / over, sensitivity=sensitivity, spread=spread)
    scale = (sensitivity + more + step * spread) * ROUNDED_UP * times / over
    require_scale(scale / step)
    return step, scale


def as_statistic(value: ArrayLike, *, copy: bool | None = True) -> NDArray[np.float64]:
    """Return the statistic as an array of doubles, a new one, in one order of memory.

    The order of a table of rows can be changed by the type that one odd cell gives it.
    """
    statistic = np.array(value, dtype=np.float64, order="C", copy=copy)
    if not np.isfinite(statistic).all():
        raise InvalidInputError("A statistic to release must be finite; clip the rows first.")
    return statistic


def to_grid(statistic: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    """Round each number to the nearest multiple of `step`, exactly; each moves by step/2 at most.

    Numbers of 2**53 steps and more are multiples of the power of two `step` already.
    """
    limit = 2.0**53 * step
    if -limit < statistic.min(initial=0.0) and statistic.max(initial=0.0) < limit:
        steps = np.asarray(statistic / step)
        np.rint(steps, out=steps)  # in place: new pages of memory cost more than the rounding
        steps *= step
        return steps
    small = np.abs(statistic) < limit
    return np.where(small, np.rint(np.where(small, statistic, 0.0) / step) * step, statistic)


def add_on_grid(
    statistic: NDArray[np.float64], noise: NDArray[np.float64], step: float
) -> NDArray[np.float64]:
    """Add `noise` cells to a statistic on the grid.

    Both summands are exact doubles and IEEE addition rounds their exact sum, so the result is a
    function of that sum alone: post-processing. Adding zero last gives an exact sum of zero one
    sign; otherwise -0.0 would tell that both summands were negative zeros.
    """
    total = noise * step
    total += statistic
    total += 0.0
    return total


# A tape of releases, for tests ------------------------------------------------------------------


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
        kept = output.copy() if isinstance(output, np.ndarray) else output
        self.releases.append(Released(mechanism, release.__name__, statistic, kept))
        return output.copy() if isinstance(output, np.ndarray) else output


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


def on_tape(release: Callable[..., Any]) -> Callable[..., Any]:
    """Put a release method on the tape that is running, if one is."""

    @wraps(release)
    def method(self: Any, value: Any, *, ledger: Any) -> Any:
        tape, process = _tape.get(), os.getpid()
        if tape is None:
            released = release(self, value, ledger=ledger)
        else:
            released = tape.run(self, release, value, ledger)
        if os.getpid() != process:
            raise LedgerError(
                "The process was forked between a charge and its draw: one payment would cover two "
                "draws. Only the parent process can make the release."
            )
        return released

    return method


# Noise of one law on each number ------------------------------------------------------------------


class AdditiveMechanism(Mechanism):
    """Independent noise of one law on each number of a statistic."""

    law: ClassVar[Law]
    delta: float = 0.0  # probability that a number is released without noise

    def release(self, value: ArrayLike, *, ledger: Chargeable | None) -> NDArray[np.float64]:
        """Charge the ledger, then release `value` with independent noise on each number."""
        statistic = as_statistic(value)
        grid = self.grid(statistic.size)
        self._charge(ledger, statistic.size)
        if grid is None:
            return statistic
        step, scale = grid
        noise = self._noise(scale / step, statistic.size)
        if self.delta:
            noise[bernoulli(lambda exact: exact.mpf(self.delta), statistic.size)] = 0.0
        return add_on_grid(to_grid(statistic, step), noise.reshape(statistic.shape), step)

    def _noise(self, cells: float, size: int) -> NDArray[np.float64]:
        """Draw noise of a scale in cells of the grid."""
        return rounded_noise(self.law, cells, size)
