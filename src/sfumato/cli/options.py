"""Arguments and options that several commands take, and how they are read."""

from __future__ import annotations

import math
import tomllib
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.exit_codes import watch
from sfumato.cli.jobs.pipeline import PrivacyRequest
from sfumato.exceptions import InvalidInputError
from sfumato.ledger.ledger import Ledger
from sfumato.privacy.guarantee import Relation, Unit
from sfumato.sums.partitions import Partitions
from sfumato.tables.files import TableFile
from sfumato.tables.schema import TableBounds
from sfumato.tables.text import TextFormat

LARGE = 8.0  # above it a promise is weak, whatever the table
FEW = 500.0  # records times epsilon below which noise outweighs most of what a table says

TablePath = Annotated[
    Path,
    typer.Argument(
        metavar="TABLE",
        help="A table: .csv, .tsv, .jsonl (also .gz, .zst), .parquet, .feather, .arrow, or a table "
        "inside .xlsx, .ods, .sqlite or .duckdb, as in hospital.duckdb:patients.",
    ),
]
TargetName = Annotated[str | None, typer.Option("--target", help="The column of labels.")]
Bounds = Annotated[
    Path, typer.Option("--bounds", "-b", help="The confirmed bounds, see `sfumato describe`.")
]
ImageSize = Annotated[
    str | None,
    typer.Option(
        "--image-size",
        metavar="HEIGHTxWIDTH[xCHANNELS]",
        help="For images: the public size to which each is resized, such as 32x32x3.",
    ),
]
Epsilon = Annotated[float, typer.Option("--epsilon", "-e", help="The budget; smaller hides more.")]
Delta = Annotated[float, typer.Option("--delta", help="Far below 1 / number of rows.")]
DeclaredUnit = Annotated[
    Unit | None,
    typer.Option("--unit", help="What is protected; by default a person if the bounds name one."),
]
PersonName = Annotated[
    str | None,
    typer.Option("--person", help="The column of IDs, if a person can have several rows."),
]
PersonRows = Annotated[
    int | None, typer.Option("--person-rows", help="The largest number of rows used per person.")
]
NeighbourRelation = Annotated[
    Relation, typer.Option("--relation", help="Which tables count as neighbours.")
]
LedgerPath = Annotated[
    str | None,
    typer.Option("--ledger", help="The ledger that pays: a file or URL, see `sfumato budget`."),
]
Dataset = Annotated[
    str | None,
    typer.Option("--dataset", help="The data set in that ledger; not needed if there is only one."),
]
Purpose = Annotated[
    str | None,
    typer.Option(help="What the release is for; recorded in the ledger, shown in the report."),
]
By = Annotated[
    str | None,
    typer.Option("--by", help="Who requests it; recorded in the ledger, shown in the report."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="A parameter of the estimator; may be repeated."
    ),
]
Reading = Annotated[
    list[str] | None,
    typer.Option(
        "--read",
        metavar="NAME=VALUE",
        help="How the text is written: delimiter, quote, decimal, thousands, encoding; may be "
        "repeated, and overrides the bounds.",
    ),
]
Engine = Annotated[
    str | None,
    typer.Option("--engine", help="A cluster that reads the files: dask://host:port."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def bounded_table(
    table: Path,
    bounds: Path,
    person: str | None = None,
    person_rows: int | None = None,
    reading: list[str] | None = None,
) -> tuple[TableFile, TableBounds]:
    """Open a table with the types of its bounds, once these are confirmed."""
    known = known_bounds(bounds, person, person_rows, reading)
    return TableFile(table, known.types(), known.text), known


def known_bounds(
    bounds: Path,
    person: str | None = None,
    person_rows: int | None = None,
    reading: list[str] | None = None,
) -> TableBounds:
    """Read bounds that are confirmed, with what the command line says besides."""
    known = TableBounds.read(bounds).with_person(person, person_rows)
    known = written_as(known, reading)
    known.require_confirmed()
    return known


def written_as(known: TableBounds, reading: list[str] | None) -> TableBounds:
    """Return the bounds with what '--read' says of the text."""
    if not reading:
        return known
    declared = {} if known.text is None else known.text.to_record()
    text = TextFormat.from_record({**declared, **reading_from(reading)})
    return replace(known, text=text)


def reading_from(pairs: list[str] | None) -> dict[str, Any]:
    """Read the NAME=VALUE pairs of '--read'; the delimiter may be the word tab."""
    found: dict[str, Any] = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise InvalidInputError(f"'--read' must have the form NAME=VALUE. Got {pair!r}.")
        value = "\t" if value in ("tab", "\\t") else value
        found[name.strip()] = value.split("|") if name.strip() == "missing" else value
    TextFormat.from_record(found)
    return found


def warn_of_few(source: TableFile | Partitions, promise: PrivacyRequest) -> None:
    """Warn where a table is small for its budget; only where the number of records is public."""
    is_public = promise.relation == Relation.REPLACE_ONE and promise.unit != Unit.PERSON
    if not is_public or math.isinf(promise.epsilon):
        return
    if isinstance(source, Partitions):  # the fit counts them, and warns
        return
    n_rows = source.count_rows()
    if n_rows * promise.epsilon < FEW:
        warnings.warn(
            f"The table has {n_rows} records, which is public here. At epsilon "
            f"{promise.epsilon:g}, the noise will hide most of what so few records say.",
            stacklevel=2,
        )


def promise_of(
    epsilon: float,
    delta: float,
    unit: str | None,
    relation: str,
    ledger: str | None,
    dataset: str | None,
    known: TableBounds | None = None,
    *,
    purpose: str | None = None,
    by: str | None = None,
) -> PrivacyRequest:
    """Gather what is asked of a release; the unit, where nobody says it, is that of the bounds."""
    if unit is None:
        unit = Unit.RECORD if known is None or known.person is None else Unit.PERSON
    if ledger is None and (purpose or by):
        raise InvalidInputError(
            "'--purpose' and '--by' are recorded in a ledger: give '--ledger' too."
        )
    if ledger is None and dataset is not None:
        raise InvalidInputError("'--dataset' names a budget of a ledger: give '--ledger' too.")
    paying = None if ledger is None else payer(ledger, dataset).noted(purpose=purpose, by=by)
    if paying is not None:
        watch(paying)
    if LARGE < epsilon < math.inf:
        warnings.warn(
            f"Epsilon {epsilon:g} is above {LARGE:g}: the guarantee says little about a record. "
            "`sfumato guarantee` shows the odds.",
            stacklevel=2,
        )
    return PrivacyRequest(epsilon, delta, str(unit), str(relation), paying)


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
    """Return what a shell asks: the names that begin as typed."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


def names_from(text: str) -> list[str]:
    """Read names with commas between."""
    return [name.strip() for name in text.split(",") if name.strip()]


def size_from(text: str | None) -> tuple[int, ...] | None:
    """Read a size such as 32x32x3."""
    if text is None:
        return None
    sizes = text.lower().split("x")
    if len(sizes) not in (2, 3) or not all(size.isdigit() for size in sizes):
        raise InvalidInputError(f"'--image-size' must look like 32x32x3. Got {text!r}.")
    return tuple(int(size) for size in sizes)


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
