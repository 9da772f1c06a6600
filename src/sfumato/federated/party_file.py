"""A party's own configuration: a small TOML file that never leaves it.

::

    name = "hospital-a"
    data = "rows.npz"            # arrays X and y, or a table (CSV, Parquet, Arrow, JSON lines)
    target = "label"             # the column of labels, for a table
    store = "releases"           # releases made, and the log of messages
    ledger = "ledger.db"         # made with `sfumato budget create`
    dataset = "patients"         # its name in the ledger
    bounds = "bounds.toml"       # the bounds on which the parties agreed
    unit = "record"              # in which the bounds are read: "record" or "entry"
    max_epsilon = 3.0            # larger requests are refused

    [execution]
    n_jobs = 2

Paths are taken from the folder of the file. `ledger`, `bounds` and `max_epsilon` are optional.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.accounting.ledger import Ledger
from sfumato.bounds import Bounds
from sfumato.exceptions import FederationError
from sfumato.federated.party import Party, Rows
from sfumato.pipeline import labelled_rows
from sfumato.tables.bounds_file import TableBounds
from sfumato.tables.files import TableFile

__all__ = ["party_of_context", "read_party"]

KNOWN = {
    "name",
    "data",
    "target",
    "store",
    "ledger",
    "dataset",
    "bounds",
    "max_epsilon",
    "execution",
    "unit",
}


def read_party(path: str | os.PathLike[str]) -> Party:
    """Read a party's file.

    Parameters
    ----------
    path : path-like
        The TOML file.
    """
    file = Path(path)
    try:
        record = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise FederationError(f"The party's file '{file}' cannot be read: {error}") from None
    unknown, missing = set(record) - KNOWN, {"name", "data", "store"} - set(record)
    if unknown or missing:
        raise FederationError(
            f"The party's file '{file}' needs name, data and store, and knows {sorted(KNOWN)}. "
            f"Missing: {sorted(missing)}; not known: {sorted(unknown)}."
        )
    folder = file.parent
    bounds = _bounds(folder, record)
    return Party(
        str(record["name"]),
        _loader(folder / str(record["data"]), record, bounds),
        folder / str(record["store"]),
        ledger=_ledger(folder, record),
        bounds=_agreed(bounds, record),
        max_epsilon=record.get("max_epsilon"),
        execution=record.get("execution"),
    )


def party_of_context(node: Mapping[str, Any], run: Mapping[str, Any]) -> Party:
    """Give the party of a Flower node.

    A deployed node names its own file (``party``); in a simulation the run names a folder with
    one file a partition.
    """
    if "party" in node:
        return read_party(str(node["party"]))
    folder = str(run.get("parties-folder", ""))
    if not folder:
        raise FederationError("The node's configuration does not name the file of its party.")
    return read_party(Path(folder) / f"party-{int(node['partition-id'])}.toml")


def _bounds(folder: Path, record: Mapping[str, Any]) -> TableBounds | None:
    if "bounds" not in record:
        return None
    bounds = TableBounds.read(folder / str(record["bounds"]))
    bounds.require_confirmed()
    return bounds


def _agreed(bounds: TableBounds | None, record: Mapping[str, Any]) -> Bounds | None:
    """Give the bounds of the encoded rows, in the unit that the ledger or the task will name."""
    if bounds is None:
        return None
    unit = str(record.get("unit", "record"))
    return bounds.encoding().bounds(bounds.require_target(record.get("target")).labels, unit)


def _loader(
    path: Path, record: Mapping[str, Any], bounds: TableBounds | None
) -> Callable[[], Rows]:
    if path.suffix == ".npz":
        return lambda: _arrays(path)
    if bounds is None:
        raise FederationError("A party with a table needs the file of its public bounds.")
    return lambda: _table(path, bounds, record.get("target"))


def _arrays(path: Path) -> Rows:
    with np.load(path, allow_pickle=False) as members:
        return members["X"], members["y"]


def _table(path: Path, bounds: TableBounds, target: str | None) -> Rows:
    source = TableFile(path, bounds.types())
    parts = list(labelled_rows(source, bounds.encoding(), bounds.require_target(target)))
    return np.concatenate([rows for rows, _ in parts]), np.concatenate([y for _, y in parts])


def _ledger(folder: Path, record: Mapping[str, Any]) -> Any:
    if "ledger" not in record:
        return None
    address = str(record["ledger"])
    place: str | Path = address if "://" in address else folder / address
    return Ledger(place).dataset(str(record.get("dataset", record["name"])))
