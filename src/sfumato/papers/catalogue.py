"""All tables and figures by paper."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from sfumato.exceptions import InvalidInputError
from sfumato.papers.entry import Entry

ALL = "all"
PAPERS = ("kahm", "functions", "large-margin", "cdmma", "feddpdr")


def entries_of(paper: str) -> list[Entry]:
    """Return the entries of a paper, or of all: tables first, each kind by number.

    Parameters
    ----------
    paper : str
        A name of `PAPERS`, or "all".

    Returns
    -------
    list of Entry
        What can be run.
    """
    if paper not in (*PAPERS, ALL):
        raise InvalidInputError(
            f"The paper must be one of {', '.join(PAPERS)}, or {ALL}. Got {paper!r} instead."
        )
    found = []
    for name in PAPERS if paper == ALL else (paper,):  # from modules of its folder, heavy to import
        folder = name.replace("-", "_")
        here = iter_modules([str(Path(__file__).parent / folder)])
        modules = [import_module(f"sfumato.papers.{folder}.{each.name}") for each in here]
        own = [entry for module in modules for entry in getattr(module, "ENTRIES", ())]
        found += sorted(own, key=_place)
    return found


def _place(entry: Entry) -> tuple[bool, int, str]:
    kind, _, number = entry.name.partition("-")
    digits = "".join(c for c in number if c.isdigit())
    return kind != "table", int(digits or 0), number


def entry_of(paper: str, name: str) -> Entry:
    """Return one entry; the refusal says what there is.

    Parameters
    ----------
    paper : str
        A name of `PAPERS`.
    name : str
        Of the entry, ``"table-5"`` or ``"figure-4"``.

    Returns
    -------
    Entry
        The entry.
    """
    found = {entry.name: entry for entry in entries_of(paper)}
    if paper == ALL or name not in found:
        there = ", ".join(found) if paper != ALL else "none: name one paper"
        raise InvalidInputError(f"There is no {name} of {paper!r}. There are: {there}.")
    return found[name]
