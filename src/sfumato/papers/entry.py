"""What a reproduction is: printed figures next to ours, and a verdict that follows from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from sfumato.exceptions import InvalidInputError

Verdict = Literal[
    "reproduced",
    "reproduced only under an assumption that breaks the guarantee",
    "not reproduced",
    "not decided",
    "quick run, too small to judge",
]

ERRORS = 2.0  # standard errors of the mean of paired runs within which a claim is not decided


@dataclass(frozen=True)
class Setting:
    """How a reproduction is to run.

    Parameters
    ----------
    quick : bool
        Small embedded data, a few seconds; the printed figures are shown but not judged.
    runs : int
        Independent repetitions that are averaged.
    tell : callable
        Takes a line about what is being done, for a progress display.
    device : str, optional
        A PyTorch device such as "cuda", for the entries that can use one.
    n_jobs : int, optional
        Fits at a time, for the entries whose cells are independent fits; see joblib.
    cell : mapping of str to str
        Run this cell of a table alone, such as ``{"eps": "1", "n": "20"}``; empty for all.
    memory : dict
        What entries of one command share, such as a table and the figure of its numbers.
    """

    quick: bool = False
    runs: int = 3
    tell: Callable[[str], None] = field(default_factory=lambda: lambda _: None)
    device: str | None = None
    n_jobs: int | None = None
    cell: Mapping[str, str] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def pick(
        self, cells: Iterable[Any], *names: str, quick: Sequence[Any] | None = None
    ) -> list[Any]:
        """Return the cells to run: the chosen one, else a few in a quick run, else all.

        Parameters
        ----------
        cells : iterable of tuple, or of single values
            The coordinates of each cell.
        *names : str
            Names of the coordinates.
        quick : sequence, optional
            The cells of a quick run; by default all.

        Returns
        -------
        list
            Some of the cells, in their order.
        """
        cells = list(cells)
        if not self.cell:
            return cells if quick is None or not self.quick else list(quick)

        named = []
        for cell in cells:
            values = cell if isinstance(cell, tuple) else (cell,)
            texts = [f"{v:g}" if isinstance(v, float) else str(v) for v in values]
            named.append(dict(zip(names, texts, strict=True)))
        found = [
            c for c, texts in zip(cells, named, strict=True) if self.cell.items() <= texts.items()
        ]
        if not found:
            there = [",".join(f"{name}={text}" for name, text in each.items()) for each in named]
            raise InvalidInputError(f"There is no such cell. There are: {'; '.join(there)}.")
        return found


@dataclass(frozen=True)
class Comparison:
    """One printed figure, ours in paper mode, ours in strict mode.

    Parameters
    ----------
    what : str
        The row as the paper names it, such as ``"epsilon 1, Definition 15"``.
    printed, paper, strict : float or None
        The figure of the paper; ours from the printed algorithm; ours under a proved guarantee.
        None where there is no such figure.
    within : float or None
        How far ours may lie from ``printed`` (absolute) and still count as reproduced; None shows
        the figures side by side and judges nothing, as where only other data are public.
    unit : str
        What the figures count: ``"accuracy"``, ``"s"``, ``"mis"``.
    paper_sd, strict_sd : float or None
        Standard deviations of ours over runs.
    """

    what: str
    printed: float | None
    paper: float | None
    strict: float | None
    within: float | None = 0.01
    unit: str = "accuracy"
    paper_sd: float | None = None
    strict_sd: float | None = None

    @property
    def agrees(self) -> bool | None:
        """Whether ours meets the printed figure: as printed where that ran, strict else."""
        return self._meets(self.strict if self.paper is None else self.paper)

    @property
    def agrees_strictly(self) -> bool | None:
        """Whether ours under a proved guarantee meets the printed figure; None if unknown."""
        return self._meets(self.strict)

    def _meets(self, ours: float | None) -> bool | None:
        if self.printed is None or ours is None or self.within is None:
            return None
        return abs(ours - self.printed) <= self.within


@dataclass(frozen=True)
class Outcome:
    """What a run of an entry gave.

    Parameters
    ----------
    comparisons : tuple of Comparison
        Printed figures next to ours.
    claims : mapping of str to bool
        What the table or figure is there to show, each as a sentence and whether our numbers show
        it; these are judged for entries without printed numbers, and are shown in a quick run.
    series : mapping
        Panels of the picture, each with points by name; without them there is none.
    remarks : tuple of str
        What a reader must know: stand-ins, smaller samples, parameters the paper leaves open.
    """

    comparisons: tuple[Comparison, ...]
    claims: Mapping[str, bool] = field(default_factory=dict)
    series: Mapping[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Entry:
    """A table or a figure of a paper and how to run it.

    Parameters
    ----------
    paper : str
        Short name of the paper: kahm, functions, large-margin, cdmma, feddpdr.
    name : str
        ``"table-5"``, ``"figure-4"``.
    title : str
        What it shows, in our own words.
    run : callable
        Takes a `Setting`, returns an `Outcome`.
    broken : str or None
        Why the guarantee printed with the figures does not hold; None where nothing is promised
        or the promise holds.
    data : str
        The data set of a full run, and the stand-in of a quick one.
    minutes : str
        How long the full run takes, and on what.
    cells : tuple of str
        Names of the coordinates of a cell that can be run alone; empty where none can.
    """

    paper: str
    name: str
    title: str
    run: Callable[[Setting], Outcome]
    broken: str | None = None
    data: str = "generated"
    minutes: str = "under 1"
    cells: tuple[str, ...] = ()


def compare_runs(
    what: str,
    printed: float | None,
    paper: Sequence[float] = (),
    strict: Sequence[float] = (),
    within: float | None = None,
    unit: str = "accuracy",
) -> Comparison:
    """Compare runs as printed and mended with a printed figure: means, and deviations over runs."""
    ours, mended = (round(float(np.mean(r)), 6) if len(r) else None for r in (paper, strict))
    sd, mended_sd = (
        round(float(np.std(r, ddof=1)), 6) if len(r) > 1 else None for r in (paper, strict)
    )
    return Comparison(what, printed, ours, mended, within, unit, sd, mended_sd)


def decided(gaps: Sequence[float]) -> bool | None:
    """Return whether paired differences are above 0 or below, beyond `ERRORS`; None if neither."""
    if len(gaps) < 2:  # one run has no spread
        return None
    mean, error = float(np.mean(gaps)), float(np.std(gaps, ddof=1)) / len(gaps) ** 0.5
    return None if abs(mean) <= ERRORS * error else mean > 0


def claims_of(gaps: Mapping[str, Any]) -> dict[str, bool]:
    """Judge claims by paired differences, above 0 where they hold; leave out what is undecided."""
    judged = {words: decided(each) for words, each in gaps.items()}
    return {words: holds for words, holds in judged.items() if holds is not None}


def verdict_of(entry: Entry, outcome: Outcome, *, quick: bool) -> Verdict:
    """Judge an outcome: every comparison must agree, every claim must hold.

    Where the printed guarantee is broken, an outcome still counts as reproduced if the strict mode
    reaches every printed figure as well.

    Parameters
    ----------
    entry : Entry
        What was run.
    outcome : Outcome
        What it gave.
    quick : bool
        Whether the run was too small to be judged.

    Returns
    -------
    str
        The verdict.
    """
    if quick:
        return "quick run, too small to judge"
    judged = [row for row in outcome.comparisons if row.agrees is not None]
    shown = [*(row.agrees for row in judged), *outcome.claims.values()]
    if not shown:  # no figure to compare, and runs that decide no claim
        return "not decided"
    if not all(shown):
        return "not reproduced"
    if entry.broken is None or (judged and all(row.agrees_strictly for row in judged)):
        return "reproduced"
    return "reproduced only under an assumption that breaks the guarantee"
