"""Public tables that learning curves are measured on: columns, targets, and round ranges.

The tables are those of the package pydataset 0.2.0 (R's public data sets): unpack its
`resources.tar.gz` and name the folder in SFUMATO_TABLES. Ranges are the ends of the columns,
rounded outwards: the rows are public, and so is all that is said of them. Rows with missing cells
are left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sfumato.tables import TableBounds

MOST_CATEGORIES = 20  # columns with more texts than this are not used


@dataclass(frozen=True)
class Task:
    """One table and what is to be foretold of it: a column, or a rule that makes one."""

    file: str
    target: str
    rule: Callable[[Any], Any] | None = None  # None: a number is foretold
    left_out: tuple[str, ...] = ()


def _same(column: Any) -> Any:
    return column.astype(str)


def _some(column: Any) -> Any:
    return (column > 0).map({True: "yes", False: "no"})


def _above_median(column: Any) -> Any:
    return (column > column.median()).map({True: "yes", False: "no"})


TASKS: dict[str, Task] = {
    "insured wives": Task("HI", "whi", _same, ("whrswk", "wght")),
    "mortgages denied": Task("Hdma", "deny", _same),
    "light chains": Task("flchain", "death", _same, ("futime", "chapter")),
    "Australian doctors": Task("DoctorAUS", "doctorco", _some),
    "hospital stays": Task("OFP", "hosp", _some),
    "union wages": Task("Wages", "union", _same),
    "union men": Task("Males", "union", _same, ("nr",)),
    "Chilean votes": Task("Chile", "vote", _same),
    "baseball leagues": Task("baseball", "sb", _some, ("id", "team", "cs")),
    "turnout": Task("turnout", "vote", _same),
    "self-reported gender": Task("bfi", "gender", _same),
    "class size": Task("Star", "freelunk", _same, ("schidkn",)),
    "premium computers": Task("Computers", "premium", _same),
    "yogurt": Task("Yogurt", "choice", _same, ("id",)),
    "tuna": Task("Tuna", "Tuna.choice", _same, ("Tuna.hid", "Tuna.id")),
    "aids": Task("Aids2", "status", _same, ("death",)),
    "kidney tumours": Task("nwtco", "rel", _same, ("seqno", "edrel")),
    "training programme": Task("Treatment", "treat", _same),
    "heart procedures": Task("azpro", "procedure", _same),
    "Vietnamese illness": Task("VietNamI", "illness", _some, ("illdays", "actdays", "commune")),
    "films": Task("movies", "rating", _above_median, ("title", "budget", "mpaa")),
    "drama": Task("movies", "Drama", _same, ("title", "budget", "mpaa")),
    "owned homes": Task("Workinghours", "owned", _same, ("mortgage",)),
    "food shares": Task("BudgetFood", "wfood"),
    "prices of computers": Task("Computers", "price"),
    "vocabulary": Task("Vocab", "vocabulary"),
    "wages": Task("Wages", "lwage"),
    "Vietnamese households": Task("VietNamH", "lntotal", None, ("lnrlfood", "lnexp12m", "commune")),
    "Canadian wages": Task("SLID", "wages"),
    "nitrogen oxides": Task("NOxEmissions", "LNOx"),
    "language scores": Task("nlschools", "lang", None, ("class",)),
    "German doctors": Task("rwm5yr", "hhninc", None, ("id",)),
    "film ratings": Task("movies", "rating", None, ("title", "budget", "mpaa")),
}


def public_table(name: str) -> tuple[pd.DataFrame, np.ndarray, TableBounds]:
    """Give columns, targets and public bounds of one task; rows in a fixed random order."""
    task = TASKS[name]
    rows = _read(task.file)
    rows = rows.drop(columns=[rows.columns[0], *task.left_out]).dropna()
    rows = rows.sample(frac=1.0, random_state=0).reset_index(drop=True)
    goal = rows.pop(task.target)
    if task.rule is not None:
        goal = task.rule(goal)
    facts: dict[str, Any] = {}
    for column in rows.columns:
        known = _known(rows[column])
        if known is None:
            rows = rows.drop(columns=column)
        else:
            facts[column] = known
    named = f"{task.target} (foretold)"
    facts[named] = _rounded(goal) if task.rule is None else sorted(set(goal))
    for column, known in facts.items():
        if isinstance(known, list) and column != named:
            rows[column] = rows[column].astype(str)
    return rows, goal.to_numpy(), TableBounds.from_dict(facts, target=named)


def _read(file: str) -> pd.DataFrame:
    if "SFUMATO_TABLES" not in os.environ:
        raise SystemExit("Set SFUMATO_TABLES to the folder with pydataset's CSV files.")
    found = sorted(Path(os.environ["SFUMATO_TABLES"]).rglob(f"{file}.csv"))
    return pd.read_csv(found[0], na_values=["NA"])


def _known(column: Any) -> Any:
    if pd.api.types.is_numeric_dtype(column):
        return _rounded(column) if column.nunique() > 1 else None
    texts = sorted(set(column.astype(str)))
    return texts if 1 < len(texts) <= MOST_CATEGORIES else None


def _rounded(column: Any) -> tuple[float, float]:
    """Round the ends outwards to a tenth of the order of the range."""
    low, high = float(column.min()), float(column.max())
    step = 10.0 ** (np.floor(np.log10(max(high - low, 1e-9))) - 1)
    return float(np.floor(low / step) * step), float(np.ceil(high / step) * step)
