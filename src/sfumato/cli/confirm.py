"""``sfumato confirm``: a person goes through a file of bounds and says what is public."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.console import print_lines, printed_json, remark
from sfumato.cli.exit_codes import plain_errors
from sfumato.cli.options import Json
from sfumato.exceptions import InvalidInputError, SfumatoError
from sfumato.tables.schema import Column, TableBounds, Target

QUESTION = "Would you know this if you had never seen the table? Type yes, {}, or quit"
ANSWERS = {
    "range": "the range that you know (such as 0 to 120), out to leave the column out",
    "list": "the values that you know, separated by commas, out to leave the column out",
    "date": "the first and last day that you know (1990-01-01 to 2030-01-01), out to leave it out",
    "labels": "the labels or the range that you know",
}


def confirm(
    bounds: Annotated[
        Path, typer.Argument(metavar="BOUNDS", help="The file that `sfumato describe` wrote.")
    ],
    by: Annotated[str | None, typer.Option("--by", help="Who confirms; kept in the file.")] = None,
    as_json: Json = False,
) -> None:
    """Go through proposed bounds column by column, and confirm them as public knowledge.

    A person types yes, or what is known instead. Adjacent columns with the same bounds are asked
    about once. Nothing is written before the last answer; quit, or Ctrl-C, changes nothing.

    Example: sfumato confirm bounds.toml --by "A. Meier"
    """
    with plain_errors():
        found = TableBounds.read(bounds)
        if found.confirmed:
            raise InvalidInputError(f"'{bounds}' is already confirmed.")
        if not at_terminal():
            raise InvalidInputError(
                "'confirm' asks a person at a terminal, column by column, and accepts no answers "
                "from a file or a pipe."
            )
        note = f"confirmed {date.today().isoformat()}" + (f" by {by}" if by else "")
        target = None if found.target is None else _asked_target(found.target, note)
        columns = tuple(
            column for group in _groups(found.columns) for column in _asked(group, note)
        )
        found = replace(_asked_person(found), target=target, columns=columns)
        n_used = len(found.used)
        _last_word(n_used, n_left_out=len(columns) - n_used)
        found = replace(found, confirmed=True)
        TableBounds.from_record(found.to_record()).require_confirmed()
        found.write(bounds)
    if as_json:
        printed_json({"bounds": str(bounds), "confirmed": True, "used": n_used, "by": by})
    else:
        used = "1 column is used" if n_used == 1 else f"{n_used} columns are used"
        print_lines(f"{bounds}: confirmed, {used}.")


def at_terminal() -> bool:
    """Whether a person can answer."""
    return sys.stdin.isatty()


def _groups(columns: Sequence[Column]) -> Iterator[list[Column]]:
    """Yield columns side by side that say the same, such as the pixels of an image."""
    for _, group in groupby(columns, key=lambda each: replace(each, name="", note="")):
        yield list(group)


def _asked(group: list[Column], note: str) -> list[Column]:
    """Ask about columns that say the same; gives them as they were answered."""
    first = group[0]
    title = (
        first.name
        if len(group) == 1
        else f"{first.name} ... {group[-1].name} ({len(group)} columns)"
    )
    if first.left_out:
        remark(f"\n{title}: left out.")
        return [replace(each, note=note) for each in group]
    remark(f"\n{title}: {_facts(first)}")
    kind = "list" if first.categories is not None else "date" if first.parts else "range"
    while True:
        answer = _answer(QUESTION.format(ANSWERS[kind]))
        try:
            return [replace(_answered(each, answer, kind), note=note) for each in group]
        except SfumatoError as error:
            remark(str(error))


def _answered(column: Column, answer: str, kind: str) -> Column:
    """Return the column as it was answered; raises where that makes no sense."""
    if answer == "yes":
        return column
    if answer == "out":
        return Column(column.name, column.type, left_out=True)
    if kind == "list":
        record: dict[str, Any] = {"categories": _values(answer, column.categories)}
    else:
        lower, upper = _pair(answer, is_date=kind == "date")
        record = {"lower": lower, "upper": upper}
    return Column.from_record(column.name, {**column.to_record(), **record})


def _asked_target(target: Target, note: str) -> Target:
    remark(f"\n{target.name}, the column to predict: {_facts(target)}")
    while True:
        answer = _answer(QUESTION.format(ANSWERS["labels"]))
        try:
            if answer == "yes":
                return replace(target, note=note)
            record = target.to_record()
            if target.labels is None:
                record["lower"], record["upper"] = _pair(answer, is_date=False)
            else:
                record["labels"] = _values(answer, target.labels)
            return replace(Target.from_record(record), note=note)
        except SfumatoError as error:
            remark(str(error))


def _asked_person(found: TableBounds) -> TableBounds:
    """Ask whom a row belongs to, where values repeat as IDs do."""
    if not found.looks_like_ids:
        return found
    remark(f"\n{', '.join(found.looks_like_ids)}: looks like a repeating ID.")
    while True:
        answer = _answer("Can a person have several rows? yes, no, or quit")
        if answer == "yes" and found.person is not None:
            rows = found.person_rows
            remark(
                f"All rows of one {found.person} are protected; at most {rows} of them are used."
            )
            return found
        if answer == "no":
            return replace(found, person=None, person_rows=None, one_row_per_person=True)


def _last_word(n_used: int, *, n_left_out: int) -> None:
    remark(f"\nColumns used: {n_used}. Columns left out: {n_left_out}.")
    while _answer("Is all of this known without the data? Type yes, or quit") != "yes":
        pass


def _answer(question: str) -> str:
    typer.echo(f"{question}: ", err=True, nl=False)
    try:
        answer = input().strip()
    except EOFError:
        answer = "quit"
    if answer.lower() in ("quit", "q"):
        raise InvalidInputError("Nothing was confirmed; the file is unchanged.")
    return answer.lower() if answer.lower() in ("yes", "no", "out") else answer


def _pair(answer: str, *, is_date: bool) -> tuple[Any, Any]:
    ends = answer.replace(" to ", " ").replace(",", " ").split()
    if len(ends) == 2:
        try:
            return (ends[0], ends[1]) if is_date else (_number(ends[0]), _number(ends[1]))
        except ValueError:
            pass
    raise InvalidInputError("Type yes, or two values, such as 0 to 120.")


def _number(text: str) -> float:
    return float(text) if not text.lstrip("+-").isdigit() else int(text)


def _values(answer: str, known: Any) -> list[Any]:
    found: list[Any] = [each.strip() for each in answer.split(",") if each.strip()]
    if isinstance(known, tuple) and all(isinstance(each, int | float) for each in known):
        try:
            return [_number(each) for each in found]
        except ValueError:
            raise InvalidInputError("The values of this column are numbers.") from None
    return found


def _in_words(kind: str) -> str:
    """Name a type for somebody who does not write programs."""
    if kind.startswith(("int", "uint")):
        return "a whole number"
    if kind in ("float", "double", "halffloat"):
        return "a number"
    return "a date" if kind.startswith(("timestamp", "date")) else kind


def _plain(number: Any) -> Any:
    """Write a whole number without a point."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _facts(column: Column | Target) -> str:
    """Return what is declared, and why it was proposed."""
    values = getattr(column, "categories", None) or getattr(column, "labels", None)
    if isinstance(values, tuple):
        told = f"one of {', '.join(map(str, values))}"
    elif values is not None:
        told = f"labels {values}"
    else:
        told = f"{_in_words(column.type)}, {_plain(column.lower)} to {_plain(column.upper)}"
    parts = getattr(column, "parts", ())
    used = f", used by {', '.join(parts)}" if parts else ""
    marked = ", missing cells are marked" if getattr(column, "missing", False) else ""
    log = ", as its logarithm" if getattr(column, "log", False) else ""
    return f"{told}{used}{log}{marked}"
