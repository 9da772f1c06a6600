"""What a reproduction is: printed figures beside ours, and a verdict that follows from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sfumato.exceptions import ParameterError

__all__ = ["Comparison", "Entry", "Outcome", "Setting", "Verdict", "verdict_of"]

Verdict = Literal[
    "reproduced",
    "reproduced only under an assumption that breaks the guarantee",
    "not reproduced",
    "quick run, too small to judge",
]


@dataclass(frozen=True)
class Setting:
    """How a reproduction is to run.

    Attributes
    ----------
    quick : bool
        Small embedded data, a few seconds; the printed figures are shown but not judged.
    runs : int
        Independent repetitions that are averaged.
    tell : callable
        Takes a line about what is being done, for a progress display.
    """

    quick: bool = False
    runs: int = 3
    tell: Callable[[str], None] = field(default=lambda line: None)


@dataclass(frozen=True)
class Comparison:
    """One printed figure, ours in paper mode, ours in strict mode.

    Attributes
    ----------
    what : str
        The row as the paper names it, such as ``"epsilon 1, Definition 15"``.
    printed, paper, strict : float or None
        The figure of the paper; ours from the printed algorithm; ours under a proved guarantee.
        None where there is no such figure.
    within : float
        How far ``paper`` may lie from ``printed`` (absolute) and still count as reproduced.
    better : {"either", "higher", "lower"}
        ``higher`` and ``lower`` let a figure pass that is better than the printed one.
    unit : str
        What the figures count: ``"accuracy"``, ``"s"``, ``"mis"``.
    """

    what: str
    printed: float | None
    paper: float | None
    strict: float | None
    within: float = 0.01
    better: Literal["either", "higher", "lower"] = "either"
    unit: str = "accuracy"

    @property
    def agrees(self) -> bool | None:
        """Whether ours from the printed algorithm meets the printed figure; None if unknown."""
        if self.printed is None or self.paper is None:
            return None
        ahead = self.paper - self.printed
        if self.better == "higher":
            return ahead >= -self.within
        if self.better == "lower":
            return ahead <= self.within
        return abs(ahead) <= self.within


@dataclass(frozen=True)
class Outcome:
    """What a run of an entry gave.

    Attributes
    ----------
    comparisons : tuple of Comparison
    claims : mapping of str to bool
        What the table or figure is there to show, each as a sentence and whether our numbers show
        it; these are judged for entries without printed numbers, and are shown in a quick run.
    series : mapping
        JSON-ready arrays for the picture.
    draw : callable or None
        Draws ``series`` on a matplotlib figure; None for bars of the comparisons.
    remarks : tuple of str
        What a reader must know: stand-ins, smaller samples, parameters the paper leaves open.
    """

    comparisons: tuple[Comparison, ...]
    claims: Mapping[str, bool] = field(default_factory=dict)
    series: Mapping[str, Any] = field(default_factory=dict)
    draw: Callable[[Any, Mapping[str, Any]], None] | None = None
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Entry:
    """A table or a figure of a paper and how to run it.

    Attributes
    ----------
    paper : str
        Short name of the paper: hulls, functions, large-margin, mappings, federated-svm.
    name : str
        ``"table-5"``, ``"figure-4"``; ``"table-1"`` for an experiment the paper lacks.
    title : str
        What it shows, in our own words.
    run : callable
        Takes a `Setting`, gives an `Outcome`.
    broken : str or None
        Why the guarantee printed beside the figures does not hold; None where nothing is promised
        or the promise holds.
    data : str
        The data set of a full run, and the stand-in of a quick one.
    minutes : str
        How long the full run takes, and on what.
    """

    paper: str
    name: str
    title: str
    run: Callable[[Setting], Outcome]
    broken: str | None = None
    data: str = "generated"
    minutes: str = "under 1"

    def __post_init__(self) -> None:
        kind, _, number = self.name.partition("-")
        if kind not in ("table", "figure") or not number:
            raise ParameterError(f"an entry is named table-N or figure-N, got {self.name!r}")


def verdict_of(entry: Entry, outcome: Outcome, *, quick: bool) -> Verdict:
    """Judge an outcome: every comparison must agree, every claim must hold."""
    if quick:
        return "quick run, too small to judge"
    agreements = [row.agrees for row in outcome.comparisons if row.agrees is not None]
    if not all(agreements) or not all(outcome.claims.values()):
        return "not reproduced"
    if entry.broken is not None:
        return "reproduced only under an assumption that breaks the guarantee"
    return "reproduced"
