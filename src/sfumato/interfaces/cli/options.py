"""Arguments and options that several commands take, and how they are read."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.accounting.ledger import Ledger
from sfumato.exceptions import InvalidInputError
from sfumato.guarantee import Relation, Unit
from sfumato.pipeline import Promise
from sfumato.tables.bounds_file import TableBounds
from sfumato.tables.files import TableFile

__all__ = [
    "Bounds",
    "Dataset",
    "Delta",
    "Epsilon",
    "Json",
    "LedgerPath",
    "NeighbourRelation",
    "ProtectedUnit",
    "Settings",
    "TablePath",
    "TargetName",
    "bounded_table",
    "completing",
    "names_from",
    "payer",
    "promise_of",
    "settings_from",
]

TablePath = Annotated[
    Path,
    typer.Argument(
        metavar="TABLE", help="A table: .csv, .parquet, .feather, .arrow, .jsonl or .ndjson."
    ),
]
TargetName = Annotated[str | None, typer.Option("--target", help="The column of labels.")]
Bounds = Annotated[
    Path, typer.Option("--bounds", "-b", help="The confirmed bounds, see `sfumato describe`.")
]
Epsilon = Annotated[float, typer.Option("--epsilon", "-e", help="The budget; smaller hides more.")]
Delta = Annotated[float, typer.Option("--delta", help="Far below 1 / number of rows.")]
ProtectedUnit = Annotated[Unit, typer.Option("--unit", help="What is protected.")]
NeighbourRelation = Annotated[
    Relation, typer.Option("--relation", help="Which tables count as neighbours.")
]
LedgerPath = Annotated[
    str | None,
    typer.Option("--ledger", help="Who pays: a ledger file or URL, see `sfumato budget`."),
]
Dataset = Annotated[
    str | None, typer.Option("--dataset", help="Its dataset; not needed if it has only one.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="A parameter of the estimator; may be repeated."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def bounded_table(table: Path, bounds: Path) -> tuple[TableFile, TableBounds]:
    """Open a table with the types of its bounds, once these are confirmed."""
    known = TableBounds.read(bounds)
    known.require_confirmed()
    return TableFile(table, known.types()), known


def promise_of(
    epsilon: float,
    delta: float,
    unit: str,
    relation: str,
    ledger: str | None,
    dataset: str | None,
) -> Promise:
    """Gather what is asked of a release."""
    if ledger is None and dataset is not None:
        raise InvalidInputError("'--dataset' names a budget of a ledger: give '--ledger' too.")
    paying = None if ledger is None else payer(ledger, dataset)
    return Promise(epsilon, delta, str(unit), str(relation), paying)


def payer(ledger: str, dataset: str | None) -> Any:
    """Open the budget that pays: the named one, or the only one of the ledger."""
    opened = Ledger(ledger)
    if dataset is not None:
        return opened.dataset(dataset)
    names = opened.datasets()
    if len(names) != 1:
        raise InvalidInputError(
            f"The ledger has {len(names)} budgets: name the one that pays with '--dataset'."
        )
    return opened.dataset(names[0])


def completing(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Give what a shell asks: the names that begin as typed."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


def names_from(text: str) -> list[str]:
    """Read names with commas between."""
    return [name.strip() for name in text.split(",") if name.strip()]


def settings_from(pairs: list[str] | None) -> dict[str, Any]:
    """Read NAME=VALUE pairs; a value is a TOML value, or else a text."""
    found = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise InvalidInputError(f"'--set' must have the form NAME=VALUE. Got {pair!r}.")
        found[name.strip()] = _value(value.strip())
    return found


def _value(text: str) -> Any:
    if text == "None":
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
