"""``sfumato doctor``: whether this machine has what Sfumato needs, and what it lacks."""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

import sfumato
from sfumato.cli.console import MIN_SPACE, console_table, print_lines, printed_json
from sfumato.cli.exit_codes import USER_ERROR, plain_errors
from sfumato.cli.options import Json
from sfumato.mechanisms import fault_of_entropy

PACKAGES = ("numpy", "scipy", "scikit-learn", "pyarrow", "dp-accounting", "typer")
# Packages of extras, and what they are for.
EXTRAS = {
    "cryptography": "certificates",
    "duckdb": "tables of DuckDB",
    "flwr": "federated deployments",
    "matplotlib": "pictures",
    "pillow": "folders of images",
    "psycopg": "ledgers on PostgreSQL",
    "python-calamine": "Excel",
    "torch": "large models on a GPU",
}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: well, missing though nothing needs it, or wrong."""

    subject: str
    state: str  # "ok", "absent" or "wrong"
    found: str


def doctor(
    folder: Annotated[Path, typer.Argument(help="The folder for ledgers and models.")] = Path(),
    as_json: Json = False,
) -> None:
    """Check versions, random numbers, file locks, databases, disk and GPU of this machine.

    The exit code is 2 if something is wrong. Only some commands need what is listed as absent.

    Example: sfumato doctor
    """
    with plain_errors():
        found = [*_versions(), _entropy(), *_of_folder(folder), _disk(folder), _gpu()]
    if as_json:
        printed_json([asdict(each) for each in found])
    else:
        console_table(("subject", "state", "found"), [[e.subject, e.state, e.found] for e in found])
        wrong = sum(each.state == "wrong" for each in found)
        print_lines(
            f"{wrong} things are wrong." if wrong else "Everything that is needed is present."
        )
    if any(each.state == "wrong" for each in found):
        raise typer.Exit(USER_ERROR)


def _versions() -> list[Finding]:
    python = Finding("Python", "ok", f"{platform.python_version()} on {platform.platform()}")
    found = [Finding("sfumato", "ok", f"{sfumato.__version__}, {Path(sfumato.__file__).parent}")]
    for name in PACKAGES:
        found.append(Finding(name, "ok", metadata.version(name)))
    for name, purpose in EXTRAS.items():
        try:
            found.append(Finding(name, "ok", f"{metadata.version(name)}, for {purpose}"))
        except metadata.PackageNotFoundError:
            found.append(Finding(name, "absent", f"only needed for {purpose}"))
    return [python, *found]


def _entropy() -> Finding:
    fault = fault_of_entropy()
    words = fault or "drawn from the operating system"
    return Finding("random numbers", "wrong" if fault else "ok", words)


def _of_folder(folder: Path) -> list[Finding]:
    checks: dict[str, Callable[[Path], str]] = {
        "file locks": _lock_twice,
        "ledger": _lock_database,
        "renaming": _rename,
    }
    found = []
    for subject, check in checks.items():
        try:
            with tempfile.TemporaryDirectory(dir=folder, prefix=".sfumato-doctor-") as place:
                wrong = check(Path(place))
        except (OSError, sqlite3.Error) as error:
            wrong = str(error)
        words = wrong or f"works in '{folder.resolve()}'"
        found.append(Finding(subject, "wrong" if wrong else "ok", words))
    return found


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


def _disk(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    state = "ok" if free >= MIN_SPACE else "wrong"
    return Finding("disk", state, f"{free / 1e9:.1f} GB free in '{folder.resolve()}'")


def _gpu() -> Finding:
    if "torch" not in sys.modules and not _has("torch"):
        return Finding("GPU", "absent", "not checked: PyTorch is not installed")
    import torch

    if not torch.cuda.is_available():
        return Finding("GPU", "absent", "PyTorch finds none; everything runs without one")
    return Finding("GPU", "ok", str(torch.cuda.get_device_name()))


def _has(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True
