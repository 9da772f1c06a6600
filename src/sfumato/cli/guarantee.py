"""``sfumato guarantee``: what a file promises, read from its header alone."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Annotated, Any

import typer

import sfumato
from sfumato.cli.console import print_lines, printed_json
from sfumato.cli.exit_codes import plain_errors
from sfumato.cli.options import Json
from sfumato.exceptions import InvalidInputError
from sfumato.models.saving import open_stored
from sfumato.privacy.guarantee import Guarantee
from sfumato.report.words import event_rows, loss_facts
from sfumato.tables.files import FORMATS, TableFile, metadata_beside, read_note


def guarantee(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A model (.sfumato), or a fabricated table.")
    ],
    as_json: Json = False,
) -> None:
    """Print what a model or a fabricated table guarantees; no array is loaded.

    Example: sfumato guarantee model.sfumato
    """
    with plain_errors():
        found = promised_by(file)
    if as_json:
        printed_json(found)
        return
    promised = Guarantee.from_dict(found["guarantee"])
    print_lines(f"{file}: {found['class']}", str(promised))
    for name, value in loss_facts(promised):  # other figures are in the sentence
        print_lines(f"  {name[0].lower()}{name[1:]}: {value}")
    for kind, parameters, times in event_rows(promised):
        print_lines(f"  released: {kind}, {parameters}, {times} x")
    print_lines(f"  public: {'; '.join(promised.public) or 'nothing is recorded'}")
    print_lines(f"  proof: {found['proof'] or 'no sheet is known'}")


def promised_by(file: Path) -> dict[str, Any]:
    """Return class, guarantee, proof sheet and, for a model of a table, its columns."""
    if not file.is_file():
        raise InvalidInputError(f"There is no file '{file}'.")
    record = _of_table(file) if file.suffix.lower() in FORMATS else _of_model(file)
    if record["guarantee"] is None:
        raise InvalidInputError(f"'{file}' states no guarantee: it is not private.")
    promised = _read(file, record["guarantee"])
    return {
        **record,
        "guarantee": promised.to_dict(),
        "attacker": promised.attacker.to_dict(),
        "proof": _proof_sheet(record["class"]),
    }


def _read(file: Path, stored: Any) -> Guarantee:
    """Build the guarantee again: the sentence in a file is not believed."""
    try:
        return Guarantee.from_dict(stored)
    except InvalidInputError:
        raise InvalidInputError(f"The guarantee in '{file}' cannot be read.") from None


def _of_model(file: Path) -> dict[str, Any]:
    with open_stored(file) as members:
        header = members.header()
    model = header["model"]
    table = (model["parameters"].get("bounds") or {}).get("table")
    return {
        "class": model["class"],
        "sfumato_version": header["sfumato_version"],
        "guarantee": header["guarantee"],
        "columns": None if table is None else _columns(table),
    }


def _columns(table: Any) -> list[str]:
    """Find the names of the columns in a header, without building the model."""
    columns: dict[str, Any] = table["dict"]["columns"]["dict"]
    return [name for name, each in columns.items() if "left_out" not in each["dict"]]


def _of_table(file: Path) -> dict[str, Any]:
    beside = metadata_beside(file)
    try:
        stored: Any = read_note(beside) if beside.is_file() else TableFile(file).metadata()
        return {"class": stored["class"], "guarantee": stored["guarantee"]}
    except (TypeError, KeyError):
        raise InvalidInputError(
            f"'{file}' contains no guarantee: it is an ordinary table, or was rewritten afterwards."
        ) from None


def _proof_sheet(name: str) -> str | None:
    text = inspect.getdoc(getattr(sfumato, name, None)) or ""
    found = re.search(r"docs/guarantees/[\w-]+\.md", text)
    return found[0] if found else None
