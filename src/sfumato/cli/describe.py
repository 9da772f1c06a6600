"""``sfumato describe``: the columns of a table, and proposed bounds for its owner to confirm."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.console import (
    console_table,
    print_lines,
    printed_json,
    progress_bar,
    ready_to_write,
    remark,
)
from sfumato.cli.exit_codes import plain_errors
from sfumato.cli.options import Json, Reading, TablePath, TargetName, reading_from
from sfumato.tables.files import TableFile
from sfumato.tables.proposal import ColumnSummary, Description, describe_table
from sfumato.tables.schema import Column


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
    with plain_errors():
        if output is not None:
            ready_to_write(output, ".toml")
        with progress_bar(f"reading {table}"):
            found = describe_table(TableFile.sniffed(table, **reading_from(reading)), target)
        if output is not None:
            found.bounds.write(output)
    if as_json:
        printed_json(_record(found, output))
        return
    console_table(("column", "type", "missing", "proposed, not private"), _rows(found))
    print_lines(f"{found.n_rows} rows, {len(found.columns)} columns.")
    if found.bounds.text is not None and found.bounds.text.to_record():
        print_lines(
            "Written with "
            + ", ".join(
                f"{name} {', '.join(map(repr, value)) if isinstance(value, tuple) else repr(value)}"
                for name, value in found.bounds.text.to_record().items()
            )
        )
    if found.bounds.looks_like_ids:
        remark(
            f"{', '.join(found.bounds.looks_like_ids)}: values repeat as IDs do. If a person has "
            "several rows, keep person and person_rows in the file and fit with --unit "
            "person; otherwise declare one_row_per_person = true."
        )
    if output is not None:
        print_lines(
            f"Proposed bounds: {output}. They come from the data. Replace them with what is known "
            "without the data:",
            f"  sfumato confirm {output}",
        )


def _rows(found: Description) -> list[list[str]]:
    proposed = {column.name: column for column in found.bounds.columns}
    return [
        [seen.name, seen.type, str(seen.missing), _proposal(seen, proposed, found)]
        for seen in found.columns
    ]


def _proposal(seen: ColumnSummary, proposed: dict[str, Column], found: Description) -> str:
    """Return what is proposed for a column, and why."""
    target = found.bounds.target
    if target is not None and seen.name == target.name:
        if target.labels is None:
            return f"target: {target.lower:g} to {target.upper:g}{_why(target.note)}"
        return f"target: {_listed(target.labels)}"
    if seen.name == found.bounds.person:
        return f"person: looks like a repeating ID; {found.bounds.person_rows} rows per person"
    column = proposed[seen.name]
    if column.left_out:
        return column.note.rstrip(".")
    if column.categories is not None:
        return _listed(column.categories)
    if column.parts:
        return f"{', '.join(column.parts)} of {column.lower} to {column.upper}"
    return f"{column.lower:g} to {column.upper:g}{_why(column.note)}"


def _why(note: str) -> str:
    reason = note.partition("; ")[2]
    return f" ({reason})" if reason else ""


def _listed(values: Any, most: int = 6) -> str:
    shown = ", ".join(str(value) for value in values[:most])
    return shown if len(values) <= most else f"{shown} and {len(values) - most} more"


def _record(found: Description, output: Path | None) -> dict[str, Any]:
    bounds = found.bounds
    return {
        "rows": found.n_rows,
        "private": False,
        "bounds_file": None if output is None else str(output),
        "target": None if bounds.target is None else vars(bounds.target),
        "person": bounds.person,
        "looks_like_ids": list(bounds.looks_like_ids),
        "file": None if bounds.text is None else bounds.text.to_record(),
        "columns": [
            {**vars(column), "missing": seen.missing}
            for column in bounds.columns
            for seen in found.columns
            if seen.name == column.name
        ],
    }
