"""``sfumato describe``, ``confirm`` and ``check``: bounds are proposed, confirmed and compared."""

from __future__ import annotations

import getpass
import sys
from contextlib import suppress
from dataclasses import replace
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.console import (
    print_json,
    print_lines,
    print_table,
    progress_bar,
    ready_to_write,
    remark,
)
from sfumato.cli.options import (
    Bounds,
    Json,
    Reading,
    TablePath,
    TargetName,
    reading_from,
    words_of,
)
from sfumato.exceptions import InvalidInputError, MissingBoundsError, SfumatoError
from sfumato.tables.files import TableFile
from sfumato.tables.proposal import ColumnSummary, Description, check_table, describe_table
from sfumato.tables.schema import Column, TableBounds
from sfumato.tables.text import IN_THOUSANDS

QUESTION = "Would you know this if you had never seen the table? Type yes, {}, or quit"
PERSON_ROWS = (
    "All rows of a person are protected together; those beyond person_rows are not used. With "
    'per_person = "average" a larger number costs no accuracy; with "sum", noise grows with it.'
)
ANSWERS = {
    "bool": "out to leave the column out",
    "range": "the range that you know (such as 0 to 120), out to leave the column out",
    "list": "the values that you know, separated by commas, out to leave the column out",
    "date": "the first and last day that you know (1990-01-01 to 2030-01-01), out to leave it out",
    "labels": "the labels or the range that you know",
}


def describe(
    table: TablePath,
    target: TargetName = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The bounds file to write (.toml).")
    ] = None,
    reading: Reading = None,
    as_json: Json = False,
) -> None:
    """Show the columns of a table and propose public bounds for you to confirm.

    What is shown comes from the rows and is not private. The bounds file is a proposal: replace
    each value with what is known without the data; `sfumato confirm` asks about each column.

    Example: sfumato describe patients.csv --target diagnosis -o bounds.toml
    """
    ready_to_write(output, ".toml")
    with progress_bar(f"reading {table}"):
        found = describe_table(TableFile.sniffed(table, **reading_from(reading)), target)
    bounds = found.bounds
    if output is not None:
        bounds.write(output)
    if as_json:
        missing = {each.name: each.missing for each in found.columns}
        about = {"rows": found.n_rows, "private": False, "missing": missing}
        print_json({**about, "bounds": bounds.to_record()})
        return
    rows = [[s.name, s.type, str(s.missing), _proposal(s, found)] for s in found.columns]
    print_table(("column", "type", "missing", "proposed, not private"), rows)
    print_lines(f"{found.n_rows} rows, {len(found.columns)} columns.")
    if bounds.looks_like_ids:
        remark(
            f"{', '.join(bounds.looks_like_ids)}: values repeat as IDs do. If a person has several "
            "rows, keep person and person_rows in the file: a fit then protects persons. "
            "Otherwise declare one_row_per_person = true."
        )
    if output is not None:
        print_lines(
            f"Proposed bounds: {output}. They come from the data. Replace them with what is known "
            "without the data:",
            f"  sfumato confirm {output}",
        )


def _proposal(seen: ColumnSummary, found: Description) -> str:
    """Return what is proposed for a column, and why."""
    target, person = found.bounds.target, found.bounds.person
    if seen.name == person:
        return f"person: looks like a repeating ID; {found.bounds.person_rows} rows per person"
    facts = (*found.bounds.columns, *([] if target is None else [target]))
    fact = next(each for each in facts if each.name == seen.name)
    told = "target: " if fact is target else ""
    if fact.left_out:
        return fact.note.rstrip(".")
    reason = fact.note.partition("; ")[2]
    return told + words_of(fact, 6) + (f" ({reason})" if reason else "")


# Confirming -------------------------------------------------------------------------------------


def confirm(
    bounds: Annotated[
        Path, typer.Argument(metavar="BOUNDS", help="The file that `sfumato describe` wrote.")
    ],
    by: Annotated[str | None, typer.Option("--by", help="Who confirms; kept in the file.")] = None,
) -> None:
    """Go through proposed bounds column by column, and confirm them as public knowledge.

    A person types yes, or what is known instead. Adjacent columns with the same bounds are asked
    about once. Nothing is written before the last answer; quit, or Ctrl-C, changes nothing.

    Example: sfumato confirm bounds.toml --by "A. Meier"
    """
    found = TableBounds.read(bounds, sealed=False)
    if found.confirmed:
        with suppress(MissingBoundsError):  # changed since, so asked again
            TableBounds.read(bounds)
            raise InvalidInputError(
                f"'{bounds}' is already confirmed. To be asked again, set confirmed = false in it."
            )
    if not at_terminal():
        raise InvalidInputError(
            "'confirm' asks a person at a terminal, column by column, and accepts no answers "
            "from a file or a pipe."
        )
    by = by or getpass.getuser()
    note = f"confirmed {date.today().isoformat()} by {by}"
    target, columns = found.target, []
    if target is not None:
        title = f"{target.name}, the column to predict"
        target = replace(_asked([target], title, "labels")[0], note=note)
    # Columns side by side that say the same, such as the pixels of an image, are one question.
    for _, each in groupby(found.columns, key=lambda each: replace(each, name="", note="")):
        group = list(each)
        first, last = group[0].name, group[-1].name
        title = first if len(group) == 1 else f"{first} ... {last} ({len(group)} columns)"
        if group[0].left_out:
            remark(f"\n{title}: left out.")
        else:
            kind = "date" if group[0].parts else "bool" if group[0].type == "bool" else "range"
            kind = kind if group[0].categories is None else "list"
            group = _asked(group, title, kind)
        columns += [replace(column, note=note) for column in group]
    if found.looks_like_ids:
        remark(f"\n{', '.join(found.looks_like_ids)}: looks like a repeating ID.")
        answer = ""
        while answer != "no" and not (answer == "yes" and found.person is not None):
            answer = _answer("Can a person have several rows? yes, no, or quit")
        if answer == "no":
            found = replace(found, person=None, person_rows=None, one_row_per_person=True)
        else:
            remark(PERSON_ROWS)
            answer = _answer(f"At most how many rows of a person? yes for {found.person_rows}")
            while answer != "yes" and not answer.isdigit():
                answer = _answer("Type yes, a whole number, or quit")
            if answer != "yes":
                found = replace(found, person_rows=int(answer))
    found = replace(found, target=target, columns=tuple(columns))
    left_out = len(columns) - len(found.used)
    remark(f"\nColumns used: {len(found.used)}. Columns left out: {left_out}.")
    while _answer("Is all of this known without the data? Type yes, or quit") != "yes":
        pass
    found = replace(found, confirmed=True, confirmed_by=by)
    TableBounds.from_record(found.to_record()).require_confirmed()
    found.write(bounds)
    print_lines(f"{bounds}: confirmed.")


def check(table: TablePath, bounds: Bounds, as_json: Json = False) -> None:
    """Compare a table with its bounds, for its owner: what is printed is not private.

    Counts cells that are missing, cannot be read, lie outside their range or are not listed, and
    rows of persons that are not used; names columns that say the same. A fit says nothing about any
    of this, because an error about one record would reveal that record.

    Example: sfumato check patients.csv --bounds bounds.toml
    """
    known = TableBounds.read(bounds, sealed=False)
    with progress_bar(f"reading {table}"):
        n_rows, columns = check_table(table, known)
    if as_json:
        print_json({"rows": n_rows, "private": False, "columns": [vars(each) for each in columns]})
        return
    rows = [
        [c.name, *(f"{n} ({n / n_rows:.1%})" if n else "" for n in counts), c.same_as]
        for c in columns
        for counts in [(c.missing, c.unreadable, c.outside)]
    ]
    print_table(("column", "missing", "unreadable", "outside", "same as"), rows)
    if known.person:
        print_lines(f"Outside, of {known.person}: rows beyond the first {known.person_rows}.")
    print_lines(f"{n_rows} rows. These figures are for the owner: they are not private.")


def at_terminal() -> bool:
    """Return whether a person can answer."""
    return sys.stdin.isatty()


def _asked(group: list[Any], title: str, kind: str) -> list[Any]:
    """Ask about columns that say the same, or the target; return them as they were answered."""
    values = group[0].categories
    remark(f"\n{title}: {words_of(group[0], 10**6)}")
    while True:
        answer = _answer(QUESTION.format(ANSWERS[kind]))
        try:
            if answer == "yes":
                return group
            if answer == "out" and kind != "labels":
                return [Column(each.name, each.type, left_out=True) for each in group]
            record = _answered(answer, values, is_date=kind == "date")
            group = [c.from_record(c.name, {**c.to_record(), **record}) for c in group]
            remark(f"Noted: {words_of(group[0], 10**6)}")
            return group
        except SfumatoError as error:
            remark(str(error))


def _answered(answer: str, values: Any, *, is_date: bool) -> dict[str, Any]:
    """Return the values or the range that a person has typed."""

    def number(text: str) -> float:
        if IN_THOUSANDS.fullmatch(text):
            raise ValueError(text)
        return int(text) if text.lstrip("+-").isdigit() else float(text)

    if values is not None:
        found: list[Any] = [each.strip() for each in answer.split(",") if each.strip()]
        if len(found) < 2:
            raise InvalidInputError("Type yes, or two values or more, separated by commas.")
        if isinstance(values, tuple) and all(isinstance(each, int | float) for each in values):
            try:
                found = [number(each) for each in found]
            except ValueError:
                raise InvalidInputError("The values of this column are numbers.") from None
        return {"categories": found}
    ends: list[Any] = answer.replace(" to ", " ").replace(",", " ").split()
    try:
        lower, upper = ends if is_date else [number(each) for each in ends]
    except ValueError:
        raise InvalidInputError(
            "Type yes, or two values, such as 0 to 120. (40.000 is 40000 or 40?)"
        ) from None
    return {"lower": lower, "upper": upper}


def _answer(question: str) -> str:
    typer.echo(f"{question}: ", err=True, nl=False)
    try:
        answer = input().strip()
    except EOFError:
        answer = "quit"
    if answer.lower() in ("quit", "q"):
        raise InvalidInputError("Nothing was confirmed; the file is unchanged.")
    return answer.lower() if answer.lower() in ("yes", "no", "out") else answer
