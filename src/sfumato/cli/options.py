"""Arguments and options that several commands take, and how they are read."""

from __future__ import annotations

import contextlib
import math
import tomllib
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.console import print_json, print_lines, remark, watch
from sfumato.cli.jobs.pipeline import PrivacyRequest
from sfumato.exceptions import InvalidInputError
from sfumato.ledger.ledger import Ledger
from sfumato.privacy.guarantee import Relation, Unit, rounded_up
from sfumato.sums.partitions import Partitions
from sfumato.tables.files import TableFile
from sfumato.tables.schema import Column, TableBounds
from sfumato.tables.text import TextFormat

LARGE = 8.0  # above it a promise is weak, whatever the table
FEW = 500.0  # records times epsilon below which noise outweighs most of what a table says

TablePath = Annotated[
    Path,
    typer.Argument(
        metavar="TABLE",
        help="A table: .csv, .tsv (also .gz, .zst), .parquet, or a workbook of one sheet, .xlsx "
        "or .ods.",
    ),
]
ModelPath = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model file (.sfumato) of `sfumato fit`.")
]
TargetName = Annotated[str | None, typer.Option("--target", help="The column to predict.")]
Bounds = Annotated[
    Path, typer.Option("--bounds", "-b", help="The confirmed bounds, see `sfumato describe`.")
]
Epsilon = Annotated[float, typer.Option("--epsilon", "-e", help="Epsilon; smaller protects more.")]
Delta = Annotated[float, typer.Option("--delta", help="Delta, far below 1 / number of rows.")]
DeclaredUnit = Annotated[
    Unit | None,
    typer.Option("--unit", help="What is protected; by default a person if the bounds name one."),
]
NeighbourRelation = Annotated[
    Relation, typer.Option("--relation", help="Which tables count as neighbours.")
]
LedgerPath = Annotated[
    str | None,
    typer.Option("--ledger", help="The ledger that releases are charged to: a file or URL."),
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
        help="How the text is written: delimiter, decimal, thousands, encoding, line_breaks; may "
        "be repeated, and overrides the bounds.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def pairs_from(option: str, pairs: list[str] | None) -> dict[str, str]:
    """Read NAME=VALUE pairs."""
    found = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise InvalidInputError(f"'{option}' must have the form NAME=VALUE. Got {pair!r}.")
        found[name.strip()] = value.strip() or value
    return found


def reading_from(pairs: list[str] | None) -> dict[str, Any]:
    """Read the NAME=VALUE pairs of '--read'; the delimiter may be the word tab."""
    found: dict[str, Any] = {}
    for name, value in pairs_from("--read", pairs).items():
        word: Any = {"tab": "\t", "\\t": "\t", "true": True, "false": False}.get(value, value)
        found[name] = value.split("|") if name == "missing" else word
    TextFormat.from_record(found)
    return found


def settings_from(pairs: list[str] | None, option: str = "--set") -> dict[str, Any]:
    """Read NAME=VALUE pairs; a value is a TOML value, or else a text."""
    found: dict[str, Any] = {}
    for name, value in pairs_from(option, pairs).items():
        found[name] = None if value.strip() == "None" else value.strip()
        if found[name] is not None:
            with contextlib.suppress(tomllib.TOMLDecodeError):
                found[name] = tomllib.loads(f"value = {value}")["value"]
    return found


def names_from(text: str) -> list[str]:
    """Read names with commas between."""
    return [name.strip() for name in text.split(",") if name.strip()]


def words_of(fact: Column, most: int = 8) -> str:
    """Say what is declared of a column: its range or its values, at most so many, and its use."""
    values: Any = fact.categories
    if fact.left_out:
        return "left out"
    if isinstance(values, str):
        told = f"{values} labels"
    elif values is not None:
        told = ", ".join(map(str, values[:most]))
        told += f", ... ({len(values)} in all)" if len(values) > most else ""
    elif fact.type == "bool":
        told = "true or false"
    else:
        ends = [
            f"{each:.10g}" if isinstance(each, float) else each for each in (fact.lower, fact.upper)
        ]
        told = " to ".join(map(str, ends))
        told = f"a whole number, {told}" if fact.type.startswith(("int", "uint")) else told
    told += f"; {', '.join(fact.parts)} of the date" if fact.parts else ""
    told += "; its logarithm" if fact.log else ""
    told += "; the order has a meaning" if fact.ordered else ""
    told += "; a missing cell has its own indicator" if fact.missing else ""
    told += f"; missing cells count as {fact.fill}" if fact.fill is not None else ""
    marks = " and ".join(f"{each:g}" for each in fact.sentinels)
    return told + (f"; {marks} means missing" if marks else "")


def warn_of_few(source: TableFile | Partitions, promise: PrivacyRequest) -> None:
    """Warn where a table is small for its budget; only where the number of records is public."""
    is_public = promise.relation == Relation.REPLACE_ONE and promise.unit != Unit.PERSON
    if not is_public or math.isinf(promise.epsilon) or isinstance(source, Partitions):
        return  # of parts, the fit counts the records, and warns
    n_rows = source.n_rows
    if n_rows * promise.epsilon < FEW:
        warnings.warn(
            f"With only {n_rows} records (their number is public here), the noise will dominate "
            f"at epsilon {promise.epsilon:g}. Raise '--epsilon', or use more records.",
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
    """Return what is asked of a release; the unit, where it is not given, is that of the bounds."""
    if unit is None:
        unit = Unit.RECORD if known is None or known.person is None else Unit.PERSON
    if unit == Unit.RECORD and known is not None and known.person is not None:
        warnings.warn(
            f"The bounds name a person ({known.person!r}), and '--unit record' protects a single "
            "row: for a person with k rows it is k times this epsilon or more. Leave '--unit' out "
            "to protect persons.",
            stacklevel=2,
        )
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


def print_release(fitted: Any, output: Path, promise: PrivacyRequest, *, as_json: bool) -> None:
    """Print what was released, under which guarantee, and who paid."""
    if as_json:
        record = {"output": str(output), "class": type(fitted).__name__}
        print_json(record | {"guarantee": fitted.guarantee_.to_dict()})
        return
    print_lines(f"{output}: {type(fitted).__name__}", str(fitted.guarantee_))
    if promise.ledger is None:
        remark("No ledger was given: this release is not recorded.")
        return
    statement, past = promise.ledger.statement(), promise.ledger.history()
    budget = statement.budget
    if promise.delta != budget.delta and past:
        print_lines(
            f"Epsilon {promise.epsilon:g} at delta {promise.delta:g} counts as "
            f"{rounded_up(past[-1].epsilon, 3)} at the budget's delta {budget.delta:g}."
        )
    print_lines(
        f"Ledger '{promise.ledger.name}': spent {rounded_up(statement.spent, 4)} of epsilon "
        f"{budget.epsilon:g} at delta {budget.delta:g}."
    )
