"""``sfumato demo``, ``datasets`` and ``doctor``: to try Sfumato, and to check the machine."""

from __future__ import annotations

import fcntl
import math
import os
import platform
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import sfumato
from sfumato.cli.console import (
    MIN_SPACE,
    USER_ERROR,
    print_json,
    print_lines,
    print_table,
    progress_bar,
    ready_to_write,
)
from sfumato.cli.options import Json, completing
from sfumato.datasets import CATALOGUE, available, load
from sfumato.mechanisms import fault_of_entropy
from sfumato.models.moments import PrivateGaussianClassifier
from sfumato.report import Report, Result
from sfumato.tables.bounds import Bounds
from sfumato.tables.columns import arrow
from sfumato.tables.files import FORMATS, write_table

BUDGETS = (1.0, 3.0, 10.0)
RUNS = 5
# Known without the data: 64 pixels of 0 to 16, scaled to [0, 1], and ten digits. The norm is a
# round number below the largest possible 8; brighter images are clipped to it.
DIGITS = Bounds(norm=4.0, labels=range(10))
PACKAGES = ("numpy", "scipy", "scikit-learn", "pyarrow", "dp-accounting", "typer")
# Packages of extras, and what they are for.
EXTRAS = {
    "cryptography": "certificates",
    "duckdb": "tables of DuckDB",
    "flwr": "federated deployments",
    "matplotlib": "pictures",
    "psycopg": "ledgers on PostgreSQL",
    "python-calamine": "Excel",
    "torch": "large models on a GPU",
}


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The report to write.")] = Path(
        "sfumato-report.html"
    ),
    as_json: Json = False,
) -> None:
    """Train a private classifier on embedded digits at several budgets and write a report.

    Example: sfumato demo -o digits.html
    """
    ready_to_write(output, ".html", ".json")
    with progress_bar("training", 1 + len(BUDGETS) * RUNS) as advance:
        for report in demonstrate():
            latest = report
            advance(1)
    latest.write(output)
    if as_json:
        typer.echo(latest.to_json())
        return
    rows = []
    for result in latest.results:
        promise, share = result.guarantee, f"{result.metrics['accuracy']:.3f}"
        rows.append([f"{promise.epsilon:g}", f"{promise.delta:g}", str(promise.status), share])
    rows.append(["infinite", "", "no privacy", f"{latest.ceiling['accuracy']:.3f}"])
    print_table(("epsilon", "delta", "status", "accuracy"), rows)
    print_lines(*(f"epsilon {r.guarantee.epsilon:g}: {r.guarantee}" for r in latest.results))
    print_lines(f"Report: {output}")


def demonstrate(budgets: Sequence[float] = BUDGETS) -> Iterator[Report]:
    """Train at each budget; yields a report after every model, the last one complete."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X / 16.0, y, test_size=0.3, random_state=0, stratify=y)
    done: list[Result] = []
    ceiling: dict[str, float] = {}
    for epsilon in (math.inf, *budgets):
        found: list[float] = []
        for _ in range(1 if math.isinf(epsilon) else RUNS):
            model = PrivateGaussianClassifier(epsilon=epsilon, bounds=DIGITS).fit(X, y)
            found.append(float(np.mean(model.predict(X_test) == y_test)))
            note = f"mean of {len(found)} models, each with this guarantee alone"
            accuracy = {"accuracy": float(np.mean(found))}
            rows = [Result("Gaussian classifier", model.guarantee_, accuracy, (note,))]
            if math.isinf(epsilon):
                ceiling, rows = accuracy, []
            yield Report(
                "Handwritten digits, learned privately",
                (*done, *rows),
                ceiling=ceiling,
                settings={
                    "data": "scikit-learn digits, 1797 images of 8 x 8 pixels, 70 % to learn from",
                    "bounds": f"pixels in [0, 1], norm {DIGITS.norm:g}, labels 0 to 9",
                    "model": "one Gaussian per class in private principal components",
                },
            )
        done += rows


datasets_app = typer.Typer(
    help="Public data sets to try things on: embedded, from the folder SFUMATO_DATA, or OpenML.",
    no_args_is_help=True,
    add_completion=False,
)


@datasets_app.command("list")
def list_datasets(as_json: Json = False) -> None:
    """List the data sets and where each would come from.

    Example: sfumato datasets list
    """
    found: list[Any] = [[n, *CATALOGUE[n], origin] for n, origin in available().items()]
    if as_json:
        keys = ("name", "rows", "features", "from")
        print_json([dict(zip(keys, (n, r, w, o), strict=True)) for n, r, w, _, o in found])
        return
    lines = [[name, str(rows), str(width), origin, a] for name, rows, width, a, origin in found]
    print_table(("name", "rows", "features", "from", "about"), lines)


@datasets_app.command()
def fetch(
    name: Annotated[
        str, typer.Argument(help="A name of the list.", autocompletion=completing(CATALOGUE))
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The table to write.")],
    holdout: Annotated[
        Path | None,
        typer.Option(help="Hold rows back and write them here: the published test part, or 30 %."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a data set as a table.

    Example: sfumato datasets fetch breast-cancer -o patients.csv --holdout new.csv
    """
    ready_to_write(output, *FORMATS)
    ready_to_write(holdout, *FORMATS)
    found = load(name)
    parts: dict[Path, Any] = {output: None}
    if holdout is not None:
        parts[output], parts[holdout] = found.parts()
    written = []
    for path, rows in parts.items():
        columns = found.table(rows).items()
        table = arrow().table({key: arrow().array(v, from_pandas=True) for key, v in columns})
        write_table(table, path)
        written.append({"file": str(path), "rows": len(table)})
    if as_json:
        print_json({"name": name, "target": found.target, "files": written})
    else:
        print_lines(*(f"{each['file']}: {each['rows']} rows of {name}" for each in written))
        print_lines(f"Target: {found.target}")


def doctor(
    folder: Annotated[Path, typer.Argument(help="The folder for ledgers and models.")] = Path(),
    as_json: Json = False,
) -> None:
    """Check versions, random numbers, file locks, databases, disk and GPU of this machine.

    The exit code is 2 if something is wrong. Only some commands need what is listed as absent.

    Example: sfumato doctor
    """
    found = [
        ("Python", "ok", f"{platform.python_version()} on {platform.platform()}"),
        ("sfumato", "ok", f"{sfumato.__version__}, {Path(sfumato.__file__).parent}"),
        *((name, "ok", metadata.version(name)) for name in PACKAGES),
    ]
    for name, purpose in EXTRAS.items():
        try:
            found.append((name, "ok", f"{metadata.version(name)}, for {purpose}"))
        except metadata.PackageNotFoundError:
            found.append((name, "absent", f"only needed for {purpose}"))
    fault = fault_of_entropy()
    words = fault or "drawn from the operating system"
    found.append(("random numbers", "wrong" if fault else "ok", words))
    checks: dict[str, Callable[[Path], str]] = {
        "file locks": _lock_twice,
        "ledger": _lock_database,
        "renaming": _rename,
    }
    for subject, check in checks.items():
        try:
            with tempfile.TemporaryDirectory(dir=folder, prefix=".sfumato-doctor-") as place:
                wrong = check(Path(place))
        except (OSError, sqlite3.Error) as error:
            wrong = str(error)
        words = wrong or f"works in '{folder.resolve()}'"
        found.append((subject, "wrong" if wrong else "ok", words))
    free = shutil.disk_usage(folder).free
    words = f"{free / 1e9:.1f} GB free in '{folder.resolve()}'"
    found.append(("disk", "ok" if free >= MIN_SPACE else "wrong", words))
    torch: Any = None
    if any(name == "torch" and state == "ok" for name, state, _ in found):
        import torch
    if torch is None or not torch.cuda.is_available():
        found.append(("GPU", "absent", "PyTorch finds none; everything runs without one"))
    else:
        found.append(("GPU", "ok", str(torch.cuda.get_device_name())))
    n_wrong = sum(state == "wrong" for _, state, _ in found)
    if as_json:
        print_json([dict(zip(("subject", "state", "found"), each, strict=True)) for each in found])
    else:
        print_table(("subject", "state", "found"), found)
        told = (
            f"{n_wrong} things are wrong." if n_wrong else "Everything that is needed is present."
        )
        print_lines(told)
    if n_wrong:
        raise typer.Exit(USER_ERROR)


def _lock_twice(place: Path) -> str:
    with (place / "lock").open("w") as first, (place / "lock").open("w") as second:
        fcntl.flock(first, fcntl.LOCK_EX)
        try:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return ""
    return "two writers got one lock: this file system has no locks, do not keep a ledger here"


def _lock_database(place: Path) -> str:
    with (
        closing(sqlite3.connect(place / "ledger.db", timeout=0, isolation_level=None)) as first,
        closing(sqlite3.connect(place / "ledger.db", timeout=0, isolation_level=None)) as second,
    ):
        first.execute("BEGIN IMMEDIATE")
        try:
            second.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return ""
    return "two transactions write at once: do not keep a ledger here"


def _rename(place: Path) -> str:
    (place / "old").write_bytes(b"old")
    with (place / "new").open("wb") as file:
        file.write(b"new")
        os.fsync(file.fileno())
    (place / "new").replace(place / "old")
    return "" if (place / "old").read_bytes() == b"new" else "a renamed file has its old content"
