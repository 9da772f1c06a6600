"""``sfumato guarantee`` and ``report``: what is promised, said in words."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import sfumato
from sfumato.cli import options
from sfumato.cli.console import print_json, print_lines, ready_to_write
from sfumato.exceptions import InvalidInputError
from sfumato.models.saving import load
from sfumato.privacy.guarantee import Guarantee
from sfumato.report import LedgerExtract, Report, Result, SignatureBlock
from sfumato.report.certificate import promise_in
from sfumato.report.words import event_rows, loss_facts
from sfumato.tables.bounds import Bounds
from sfumato.tables.files import FORMATS
from sfumato.tables.schema import TableBounds


def guarantee(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A model (.sfumato), or a fabricated table.")
    ],
    as_json: options.Json = False,
) -> None:
    """Print what a model or a fabricated table guarantees; no array is loaded.

    Example: sfumato guarantee model.sfumato
    """
    found = promised_by(file)
    if as_json:
        print_json(found)
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
    """Return class, guarantee, bounds and proof sheet."""
    record = promise_in(file)
    try:  # it is built again: the sentence in a file is not believed
        promised = Guarantee.from_dict(record["guarantee"])
    except InvalidInputError:
        raise InvalidInputError(f"The guarantee in '{file}' cannot be read.") from None
    about = inspect.getdoc(getattr(sfumato, record["class"], None)) or ""
    sheet = re.search(r"docs/guarantees/[\w-]+\.md", about)
    record |= {"guarantee": promised.to_dict(), "attacker": promised.attacker.to_dict()}
    return {**record, "proof": sheet[0] if sheet else None}


def report(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Models, statistics and fabricated tables."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The report: .html or .json.")],
    title: Annotated[str, typer.Option(help="What was done, in your words.")] = "Privacy report",
    ledger: options.LedgerPath = None,
    dataset: options.Dataset = None,
    controller: Annotated[str | None, typer.Option(help="Who decides on the data.")] = None,
    by: Annotated[str | None, typer.Option("--by", help="Who prepares the report.")] = None,
    confirmed_by: Annotated[
        str | None, typer.Option(help="Who confirmed what is public; by default as the bounds say.")
    ] = None,
    retention: Annotated[str | None, typer.Option(help="How long releases are kept.")] = None,
    records: Annotated[
        int | None, typer.Option(help="The number of records, if it is public.", min=1)
    ] = None,
) -> None:
    """Write a report on models, statistics and fabricated rows: what was promised and spent.

    Nothing in it was measured on raw rows, and you may pass it on.

    Example: sfumato report model.sfumato private.parquet --ledger budget.db -o report.html
    """
    ready_to_write(output, ".html", ".json")
    results, names = [], []
    for file in files:
        known, explained, declared = promised_by(file), None, {}
        if file.suffix.lower() not in FORMATS:
            model = load(file)
            explained = model.explain() if hasattr(model, "explain") else None
            declared = _declared(getattr(model, "bounds", None))
        elif known["bounds"] is not None:
            declared = _declared(TableBounds.from_record(known["bounds"]))
        promised = Guarantee.from_dict(known["guarantee"])
        names += re.findall(r"confirmed by (.+), seal [0-9a-f]{16}", "\n".join(promised.public))
        notes = (f"{known['class']}, {file.name}", f"proof sheet: {known['proof']}")
        results.append(Result(file.stem, promised, notes, explained, file.name, declared))
    paid = None if ledger is None else LedgerExtract.of(options.payer(ledger, dataset))
    confirmed_by = confirmed_by or ", ".join(dict.fromkeys(names)) or None
    office = SignatureBlock(controller, by, confirmed_by, retention, records)
    Report(title, tuple(results), ledger=paid, office=office).write(output)
    print_lines(f"{output}: report on {', '.join(map(str, files))}.")


def _declared(bounds: Any) -> dict[str, str]:
    """Return what a model knows of its columns, with values."""
    if isinstance(bounds, Bounds):
        known = {name: getattr(bounds, name) for name in ("norm", "lower", "upper", "labels")}
        with np.printoptions(threshold=8):
            return {name: str(np.asarray(v)) for name, v in known.items() if v is not None}
    if not isinstance(bounds, TableBounds):
        return {}
    facts = (*bounds.used, *([] if bounds.target is None else [bounds.target]))
    return {each.name: options.words_of(each) for each in facts}
