"""``sfumato guarantee`` and ``report``: what is promised, said in words."""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.base import clone

import sfumato
from sfumato.cli import options
from sfumato.cli.console import (
    print_json,
    print_lines,
    progress_bar,
    ready_to_write,
)
from sfumato.cli.jobs.pipeline import table_for
from sfumato.exceptions import InvalidInputError
from sfumato.models.saving import load
from sfumato.models.scores import measure
from sfumato.privacy.guarantee import Guarantee
from sfumato.report import (
    Audit,
    LedgerExtract,
    Marginal,
    Report,
    Result,
    SignatureBlock,
)
from sfumato.report.certificate import promise_in
from sfumato.report.words import event_rows, loss_facts
from sfumato.tables.bounds import Bounds
from sfumato.tables.files import FORMATS, TableFile
from sfumato.tables.schema import TableBounds

BUDGETS = (0.3, 1.0, 3.0, 10.0)  # of the curve in a sensitive report
BINS = 20


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
    """Return class, guarantee, proof sheet and, for a model of a table, its columns."""
    record = promise_in(file)
    bounds = record.pop("bounds")
    if file.suffix.lower() not in FORMATS:
        table = None if bounds is None else bounds.get("table")
        columns = None if table is None else table["dict"]["columns"]["dict"]
        if columns is not None:
            columns = [name for name, each in columns.items() if "left_out" not in each["dict"]]
        record["columns"] = columns
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
    ready_to_write(output, ".html", ".json")
    if not sensitive and any((audit, test, train)):
        raise InvalidInputError(
            "'--audit', '--test' and '--train' put figures of raw rows into the report: add "
            "'--sensitive' if only people who may see them will get it."
        )
    parts: dict[str, Any] = {"title": title, "results": [], "ceiling": {}, "curve": {}}
    shown: list[Marginal] = []
    for file in files:
        known, metrics, explained, declared = promised_by(file), {}, None, {}
        if file.suffix.lower() in FORMATS:
            shown += [] if train is None else marginals(TableFile(train), TableFile(file))
        else:
            model = load(file)
            explained = model.explain() if hasattr(model, "explain") else None
            declared = _declared(getattr(model, "bounds", None))
            if test is not None and hasattr(model, "predict"):
                rows = table_for(model, test)
                if train is not None and not parts["curve"]:  # of the first model
                    with progress_bar("training at other budgets", len(BUDGETS) + 1) as advance:
                        curve = budget_curve(model, table_for(model, train), rows, advance)
                    parts["ceiling"] = curve.pop(math.inf)
                    first = next(iter(parts["ceiling"]))
                    parts["curve"] = {first: [(e, found[first]) for e, found in curve.items()]}
                metrics = measure(model, *target_rows(model, rows))
        promised = Guarantee.from_dict(known["guarantee"])
        notes = (f"{known['class']}, {file.name}", f"proof sheet: {known['proof']}")
        parts["results"].append(
            Result(file.stem, promised, metrics, notes, explained, file.name, declared)
        )
    parts["marginals"] = tuple(shown)
    if ledger is not None:
        parts["ledger"] = LedgerExtract.of(options.payer(ledger, dataset))
    if audit is not None:
        try:
            parts["audit"] = Audit.from_dict(json.loads(audit.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise InvalidInputError(f"There is no file '{audit}'.") from None
        except ValueError:
            raise InvalidInputError(f"'{audit}' is not JSON.") from None
    parts["office"] = SignatureBlock(controller, by, confirmed_by, retention, records)
    Report(**parts, sensitive_metrics=True).write(output)
    if as_json:
        print_json({"output": str(output), "sensitive": sensitive, "files": list(map(str, files))})
    else:
        print_lines(f"{output}: report on {', '.join(map(str, files))}.")
        if sensitive:
            print_lines("It contains figures from raw rows and is not for release.")


def _declared(bounds: Any) -> dict[str, str]:
    """Return what a model knows of its columns, with values."""
    if isinstance(bounds, Bounds):
        known = {name: getattr(bounds, name) for name in ("norm", "lower", "upper", "labels")}
        return {name: _short(value) for name, value in known.items() if value is not None}
    if not isinstance(bounds, TableBounds):
        return {}
    found = {}
    facts: list[Any] = [*bounds.used, *([] if bounds.target is None else [bounds.target])]
    for each in facts:
        record = each.to_record()
        hidden = ("name", "type", "column", "lower", "upper", "missing")
        kept = {key: value for key, value in record.items() if key not in hidden}
        words = [k if v is True else f"{k} {_short(v)}" for k, v in kept.items() if v is not False]
        if "lower" in record and "upper" in record:  # a bound of 0 is a bound
            words.insert(0, f"{_short(record['lower'])} to {_short(record['upper'])}")
        words += ["may be missing"] if record.get("missing") else []
        found[each.name] = "; ".join(words) or "as typed"
    return found


def _short(value: Any) -> str:
    if isinstance(value, str):
        return value
    values = np.asarray(value).ravel().tolist()
    shown = ", ".join(f"{v:.10g}" if isinstance(v, float) else str(v) for v in values[:8])
    return shown if len(values) <= 8 else f"{shown}, ... ({len(values)} in all)"


# Figures measured on raw rows, for the sensitive part of a report. None of them is private.


def budget_curve(
    model: Any, train: TableFile, test: TableFile, progress: Callable[[int], None] | None = None
) -> dict[float, dict[str, float]]:
    """Return the metrics of such a model at several budgets, and without privacy.

    The models are fitted anew, charged to no ledger, and thrown away: the figures are for the
    owner of the rows.
    """
    learned, measured, found = target_rows(model, train), target_rows(model, test), {}
    for epsilon in (*BUDGETS, math.inf):
        again = clone(model).set_params(epsilon=epsilon, ledger=None).fit(*learned)
        found[epsilon] = measure(again, *measured)
        if progress is not None:
            progress(1)
    return found


def target_rows(model: Any, source: TableFile) -> tuple[Any, Any]:
    """Return the rows of a table and its target, as the bounds of a model say."""
    bounds = getattr(model, "bounds", None)
    if not isinstance(bounds, TableBounds) or bounds.target is None:
        raise InvalidInputError(
            "Only a model that was trained on a table with a target can be measured on a table."
        )
    source.require([bounds.target.name])
    table = source.read(list(bounds.types()))
    return table, bounds.target.values(table[bounds.target.name])


def marginals(real: TableFile, fabricated: TableFile) -> tuple[Marginal, ...]:
    """Return the shares of values of each column that both tables have."""
    common = [name for name in fabricated.columns if name in real.columns]
    if not common:
        raise InvalidInputError("The real and the fabricated table have no column in common.")
    rows, made, found = real.read(common), fabricated.read(common), []
    for name in common:
        both = np.asarray(rows[name]), np.asarray(made[name])
        if both[1].dtype.kind in "iuf" and len(np.unique(both[1])) > BINS:
            low, high = float(both[1].min()), float(both[1].max())
            edges = np.linspace(low, high, BINS + 1)
            labels = [f"{edge:.3g}" for edge in edges[:-1]]
            finite = [column[np.isfinite(column.astype(float))] for column in both]
            counts = [np.histogram(np.clip(column, low, high), edges)[0] for column in finite]
        else:
            known = {value for value in both[0].tolist() if value is not None}
            values = sorted(set(both[1].tolist()) | known, key=str)
            labels = [str(value) for value in values]
            counts = [np.array([np.count_nonzero(c == value) for value in values]) for c in both]
        shares = [tuple((each / max(each.sum(), 1)).tolist()) for each in counts]
        found.append(Marginal(name, tuple(labels), *shares))
    return tuple(found)
