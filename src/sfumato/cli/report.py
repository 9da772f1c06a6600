"""``sfumato report``: the page that is handed to a privacy officer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from sfumato.cli import options
from sfumato.cli.console import print_lines, printed_json, progress_bar, ready_to_write
from sfumato.cli.exit_codes import plain_errors
from sfumato.cli.guarantee import promised_by
from sfumato.cli.jobs.measuring import BUDGETS, accuracy, budget_curve, marginals
from sfumato.cli.jobs.pipeline import table_for
from sfumato.exceptions import InvalidInputError
from sfumato.models.saving import load
from sfumato.privacy.guarantee import Guarantee
from sfumato.report import Audit, LedgerExtract, Report, Result, SignatureBlock
from sfumato.tables.bounds import Bounds
from sfumato.tables.files import FORMATS, TableFile
from sfumato.tables.schema import TableBounds


def report(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Models (.sfumato) and fabricated tables."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The report: .html or .json.")],
    title: Annotated[str, typer.Option(help="What was done, in your words.")] = "Privacy report",
    ledger: options.LedgerPath = None,
    dataset: options.Dataset = None,
    audit: Annotated[
        Path | None, typer.Option(help="The JSON of `sfumato audit`. Sensitive.")
    ] = None,
    sensitive: Annotated[
        bool, typer.Option("--sensitive", help="Allow sections that are measured on raw rows.")
    ] = False,
    test: Annotated[
        Path | None, typer.Option(help="Rows to measure accuracy on. Sensitive.")
    ] = None,
    train: Annotated[
        Path | None,
        typer.Option(
            help="The training rows: for the budget curve and the figure without privacy (needs "
            "--test), and to compare with fabricated rows. Sensitive."
        ),
    ] = None,
    controller: Annotated[str | None, typer.Option(help="Who decides on the data.")] = None,
    by: Annotated[str | None, typer.Option("--by", help="Who prepares the report.")] = None,
    confirmed_by: Annotated[
        str | None, typer.Option(help="Who confirmed what is declared public.")
    ] = None,
    retention: Annotated[str | None, typer.Option(help="How long releases are kept.")] = None,
    records: Annotated[
        int | None, typer.Option(help="The number of records, if it is public.", min=1)
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Write a report on models and fabricated tables: what was promised, spent and achieved.

    Without --sensitive, nothing in it was measured on raw rows, and you may pass it on.

    Example: sfumato report model.sfumato private.parquet --ledger budget.db -o report.html
    """
    with plain_errors():
        ready_to_write(output, ".html", ".json")
        if not sensitive and any((audit, test, train)):
            raise InvalidInputError(
                "'--audit', '--test' and '--train' put figures of raw rows into the report: add "
                "'--sensitive' if only people who may see them will get it."
            )
        found = _report(files, title, test=test, train=train)
        found["ledger"] = _extract(ledger, dataset)
        found["audit"] = None if audit is None else Audit.from_dict(_json(audit))
        found["office"] = SignatureBlock(controller, by, confirmed_by, retention, records)
        Report(**found, sensitive_metrics=True).write(output)
    if as_json:
        printed_json(
            {"output": str(output), "sensitive": sensitive, "files": list(map(str, files))}
        )
    else:
        print_lines(f"{output}: report on {', '.join(map(str, files))}.")
        if sensitive:
            print_lines("It contains figures from raw rows and is not for release.")


def _report(
    files: list[Path], title: str, *, test: Path | None, train: Path | None
) -> dict[str, Any]:
    """Gather the results, and what is measured on raw rows where those were given."""
    parts: dict[str, Any] = {"title": title, "results": [], "ceiling": {}, "curve": {}}
    shown: list[Any] = []
    for file in files:
        known = promised_by(file)
        metrics = {}
        if file.suffix.lower() in FORMATS:
            if train is not None:
                shown += marginals(TableFile(train), TableFile(file))
        elif test is not None:
            metrics = _measured(file, test, train, parts)
        promised = Guarantee.from_dict(known["guarantee"])
        notes = (f"{known['class']}, {file.name}", f"proof sheet: {known['proof']}")
        explained, declared = _explained(file), _declared(file)
        parts["results"].append(
            Result(file.stem, promised, metrics, notes, explained, file.name, declared)
        )
    return {**parts, "marginals": tuple(shown)}


def _declared(file: Path) -> dict[str, str]:
    """Return what a model knows of its columns, with values."""
    bounds = None if file.suffix.lower() in FORMATS else getattr(load(file), "bounds", None)
    if isinstance(bounds, TableBounds):
        columns = {each.name: each.to_record() for each in bounds.used}
        if bounds.target is not None:
            columns[bounds.target.name] = bounds.target.to_record()
        return {name: _in_words(record) for name, record in columns.items()}
    if isinstance(bounds, Bounds):
        known = {name: getattr(bounds, name) for name in ("norm", "lower", "upper", "labels")}
        return {name: _short(value) for name, value in known.items() if value is not None}
    return {}


def _in_words(record: dict[str, Any]) -> str:
    hidden = ("name", "type", "column")
    kept = {k: v for k, v in record.items() if k not in hidden and v is not None and v is not False}
    words = [
        key if value is True else f"{key} {_short(value)}"
        for key, value in kept.items()
        if key not in ("lower", "upper", "missing")
    ]
    if kept.get("missing"):
        words.append("may be missing")
    if "lower" in kept and "upper" in kept:  # a bound of 0 is a bound
        words.insert(0, f"{_short(kept['lower'])} to {_short(kept['upper'])}")
    return "; ".join(words) or "as typed"


def _short(value: Any) -> str:
    values = value if isinstance(value, str) else np.asarray(value).ravel().tolist()
    if isinstance(values, str):
        return values
    shown = ", ".join(f"{v:.10g}" if isinstance(v, float) else str(v) for v in values[:8])
    return shown if len(values) <= 8 else f"{shown}, ... ({len(values)} in all)"


def _explained(file: Path) -> Any:
    """Return what a model says about its columns, where it says anything."""
    if file.suffix.lower() in FORMATS:
        return None
    model = load(file)
    return model.explain() if hasattr(model, "explain") else None


def _measured(
    file: Path, test: Path, train: Path | None, parts: dict[str, Any]
) -> dict[str, float]:
    model = load(file)
    if not hasattr(model, "predict"):
        return {}
    rows = table_for(model, test)
    if train is not None and not parts["curve"]:  # of the first model
        with progress_bar("training at other budgets", len(BUDGETS) + 1) as advance:
            curve, ceiling = budget_curve(model, table_for(model, train), rows, advance)
        parts["curve"], parts["ceiling"] = {"accuracy": list(curve.items())}, {"accuracy": ceiling}
    return {"accuracy": accuracy(model, rows)}


def _extract(ledger: str | None, dataset: str | None) -> LedgerExtract | None:
    return None if ledger is None else LedgerExtract.of(options.payer(ledger, dataset))


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInputError(f"There is no file '{path}'.") from None
    except ValueError:
        raise InvalidInputError(f"'{path}' is not JSON.") from None
