"""``sfumato report``: the page that is handed to a privacy officer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.exceptions import InvalidInputError
from sfumato.guarantee import Guarantee
from sfumato.interfaces.cli import options
from sfumato.interfaces.cli.console import printed_json, progress_bar, ready_to_write, told
from sfumato.interfaces.cli.exit_codes import plain_errors
from sfumato.interfaces.cli.guarantee import promised_by
from sfumato.measuring import BUDGETS, accuracy, budget_curve, marginals
from sfumato.persistence import load
from sfumato.pipeline import types_read_by
from sfumato.report import Audit, LedgerExtract, Report, Result
from sfumato.tables.files import FORMATS, TableFile

__all__ = ["report"]


def report(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Models (.sfumato) and fabricated tables."),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The report: .html, .md or .json.")
    ],
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
            help="The rows learned from: for the budget curve and the figure without "
            "privacy (needs --test), and beside fabricated rows. Sensitive."
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Write a report on models and fabricated tables: what was promised, spent and achieved.

    Without --sensitive, nothing in it was measured on raw rows, and it may be handed on.

    Example: sfumato report model.sfumato private.parquet --ledger budget.db -o report.html
    """
    with plain_errors():
        ready_to_write(output, ".html", ".md", ".json")
        if not sensitive and any((audit, test, train)):
            raise InvalidInputError(
                "'--audit', '--test' and '--train' put figures of raw rows into the report: add "
                "'--sensitive' if it stays with those who may see them."
            )
        found = _report(files, title, test=test, train=train)
        found["ledger"] = _extract(ledger, dataset)
        found["audit"] = None if audit is None else Audit.from_dict(_json(audit))
        Report(**found, sensitive_metrics=True).write(output)
    if as_json:
        printed_json(
            {"output": str(output), "sensitive": sensitive, "files": list(map(str, files))}
        )
    else:
        told(f"{output}: report on {', '.join(map(str, files))}.")
        if sensitive:
            told("It holds figures of raw rows and is not for release.")


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
        parts["results"].append(Result(file.stem, promised, metrics, notes))
    return {**parts, "marginals": tuple(shown)}


def _measured(
    file: Path, test: Path, train: Path | None, parts: dict[str, Any]
) -> dict[str, float]:
    model = load(file)
    if not hasattr(model, "predict"):
        return {}
    rows = TableFile(test, types_read_by(model))
    if train is not None and not parts["curve"]:  # of the first model
        with progress_bar("training at other budgets", len(BUDGETS) + 1) as advance:
            curve, ceiling = budget_curve(
                model, TableFile(train, types_read_by(model)), rows, advance
            )
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
