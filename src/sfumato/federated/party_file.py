"""A party's own configuration: a small TOML file that never leaves it.

::

    name = "hospital-a"
    data = "rows.npz"            # arrays X and y, or a table (CSV, Parquet, Arrow, JSON lines)
    store = "releases"           # releases made, and the log of messages
    ledger = "ledger.db"         # made with `sfumato budget create`; "none" for a trial without
    dataset = "patients"         # its name in the ledger, the party's name if left out
    bounds = "bounds.toml"       # the bounds on which the parties agreed; "none" for a trial
    target = "label"             # the column of labels, for a table
    max_epsilon = 3.0            # a task that asks for more is refused
    max_delta = 1e-6             # likewise
    unit = "record"              # the only unit and relation accepted; these are the defaults
    relation = "replace_one"

    key = "key.pem"              # for secure sums: the party's own key (Ed25519),
    colluding = 1                # how many parties may at least work with the coordinator, and
    [execution]
    n_jobs = 2
    [keys]                       # the public keys of all parties, got from them and nobody else
    hospital-b = "5f1c..."

Paths are taken from the folder of the file. With unit "entry", `entry_bound` may name the smallest
change that must be protected; without it every change inside the box must be.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.cli.jobs.pipeline import all_labelled_rows
from sfumato.exceptions import FederationError
from sfumato.federated.party import Party, Rows
from sfumato.federated.secure import Identity
from sfumato.federated.terms import Terms
from sfumato.ledger.ledger import Ledger
from sfumato.privacy.guarantee import Relation, Unit
from sfumato.tables.encoder import TableEncoder
from sfumato.tables.files import TableFile
from sfumato.tables.schema import TableBounds

NEEDED = {"name", "data", "store", "ledger", "bounds", "max_epsilon", "max_delta"}
OPTIONAL = {"dataset", "target", "unit", "relation", "entry_bound", "execution"}
OPTIONAL |= {"key", "keys", "colluding"}  # for secure sums
KNOWN = NEEDED | OPTIONAL
NONE = "none"


def read_party(path: str | os.PathLike[str]) -> Party:
    """Read a party's file.

    Parameters
    ----------
    path : path-like
        The TOML file.

    Returns
    -------
    Party
        The party, ready to answer.
    """
    file = Path(path)
    try:
        record = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise FederationError(f"The party's file '{file}' cannot be read: {error}") from None
    unknown, missing = set(record) - KNOWN, NEEDED - set(record)
    if unknown or missing:
        raise FederationError(
            f"The party's file '{file}' needs {sorted(NEEDED)} and knows {sorted(KNOWN)}. "
            f"Missing: {sorted(missing)}; not known: {sorted(unknown)}."
        )
    folder = file.parent
    bounds = _bounds(folder, record)
    return Party(
        str(record["name"]),
        _loader(folder / str(record["data"]), record, bounds),
        folder / str(record["store"]),
        ledger=_ledger(folder, record),
        terms=_terms(record, bounds),
        execution=record.get("execution"),
        table=_table_of(folder / str(record["data"]), bounds),
        **_keys(folder, record),
    )


def party_of_context(node: Mapping[str, Any], run: Mapping[str, Any]) -> Party:
    """Return the party of a Flower node.

    A deployed node names its own file (``party``); in a simulation the run names a folder with
    one file a partition.
    """
    if "party" in node:
        return read_party(str(node["party"]))
    folder = str(run.get("parties-folder", ""))
    if not folder:
        raise FederationError("The node's configuration does not name the file of its party.")
    return read_party(Path(folder) / f"party-{int(node['partition-id'])}.toml")


def _keys(folder: Path, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the party's key and those that it has of the others."""
    if ("key" in record) != ("keys" in record):
        raise FederationError("Secure sums need both 'key' and the table [keys] of all parties.")
    if "key" not in record:
        return {"registered": {}}
    identity = Identity.read(folder / str(record["key"]))
    others = {str(name): str(key).strip().lower() for name, key in record["keys"].items()}
    return {"identity": identity, "registered": {**others, str(record["name"]): identity.public}}


def _bounds(folder: Path, record: Mapping[str, Any]) -> TableBounds | None:
    if record["bounds"] == NONE:
        return None
    bounds = TableBounds.read(folder / str(record["bounds"]))
    bounds.require_confirmed()
    return bounds


def _terms(record: Mapping[str, Any], bounds: TableBounds | None) -> Terms:
    unit = str(record.get("unit", Unit.RECORD))
    agreed = None
    if bounds is not None:
        bounds.require_target(record.get("target"))
        agreed = TableEncoder(bounds).row_bounds()
    return Terms(
        bounds=agreed,
        max_epsilon=float(record["max_epsilon"]),
        max_delta=float(record["max_delta"]),
        unit=unit,
        relation=str(record.get("relation", Relation.REPLACE_ONE)),
        entry_bound=record.get("entry_bound"),
        colluding=int(record.get("colluding", 1)),
        table=bounds,
    )


def _loader(
    path: Path, record: Mapping[str, Any], bounds: TableBounds | None
) -> Callable[[], Rows]:
    if path.suffix == ".npz":
        return lambda: _arrays(path)
    if bounds is None:
        raise FederationError("A party with a table needs the file of its public bounds.")
    return lambda: _table(path, bounds, record.get("target"))


def _table_of(path: Path, bounds: TableBounds | None) -> Callable[[], Any] | None:
    """Return what reads the table itself, where there is one."""
    if bounds is None or path.suffix == ".npz":
        return None
    return lambda: TableFile(path, bounds.types(), bounds.text).read()


def _arrays(path: Path) -> Rows:
    with np.load(path, allow_pickle=False) as members:
        return members["X"], members["y"]


def _table(path: Path, bounds: TableBounds, target: str | None) -> Rows:
    source = TableFile(path, bounds.types(), bounds.text)
    bounds.require_target(target)
    return all_labelled_rows(source, bounds)


def _ledger(folder: Path, record: Mapping[str, Any]) -> Any:
    if record["ledger"] == NONE:
        return None
    address = str(record["ledger"])
    place: str | Path = address if "://" in address else folder / address
    return Ledger(place).dataset(str(record.get("dataset", record["name"])))
