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
    relation = "replace_one"     # the only one accepted; this is the default

    key = "key.pem"              # for secure sums: the party's own key (Ed25519),
    colluding = 1                # how many parties may at least work with the coordinator, and
    [keys]                       # the public keys of all parties, received from them directly
    hospital-b = "5f1c..."

Paths are taken from the folder of the file. The unit is the record.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.exceptions import FederationError
from sfumato.federated.party import Party, Rows, Terms
from sfumato.federated.secure import Identity
from sfumato.ledger.ledger import Ledger
from sfumato.privacy.guarantee import Relation, Unit
from sfumato.tables.encoder import TableEncoder
from sfumato.tables.files import TableFile
from sfumato.tables.schema import TableBounds

NEEDED = {"name", "data", "store", "ledger", "bounds", "max_epsilon", "max_delta"}
OPTIONAL = {"dataset", "target", "relation", "key", "keys", "colluding"}
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
    unknown, missing = set(record) - NEEDED - OPTIONAL, NEEDED - set(record)
    if unknown or missing:
        raise FederationError(
            f"The party's file '{file}' needs {sorted(NEEDED)} and knows "
            f"{sorted(NEEDED | OPTIONAL)}. Missing: {sorted(missing)}; not known: "
            f"{sorted(unknown)}."
        )
    if ("key" in record) != ("keys" in record):
        raise FederationError("Secure sums need both 'key' and the table [keys] of all parties.")
    folder, name = file.parent, str(record["name"])
    rights: dict[str, Any] = {"ledger": None, "registered": {}}
    if "key" in record:
        identity = Identity.read(folder / str(record["key"]))
        others = {str(each): str(key).strip().lower() for each, key in record["keys"].items()}
        rights |= {"identity": identity, "registered": {**others, name: identity.public}}
    if record["ledger"] != NONE:
        address = str(record["ledger"])
        place: str | Path = address if "://" in address else folder / address
        rights["ledger"] = Ledger(place).dataset(str(record.get("dataset", name)))
    bounds = agreed = None
    if record["bounds"] != NONE:
        bounds = TableBounds.read(folder / str(record["bounds"]))
        bounds.require_confirmed()
        if bounds.with_target(record.get("target")) is not bounds:
            raise FederationError("'target' must be the target of the bounds.")
        agreed = TableEncoder(bounds).row_bounds()
    rights["terms"] = Terms(
        bounds=agreed,
        max_epsilon=float(record["max_epsilon"]),
        max_delta=float(record["max_delta"]),
        unit=Unit.RECORD,
        relation=str(record.get("relation", Relation.REPLACE_ONE)),
        colluding=int(record.get("colluding", 1)),
        table=bounds,
    )
    data, store = folder / str(record["data"]), folder / str(record["store"])
    if data.suffix == ".npz":

        def load() -> Rows:
            with np.load(data, allow_pickle=False) as members:
                return members["X"], members["y"]

        return Party(name, load, store, **rights)
    if bounds is None:
        raise FederationError("A party with a table needs the file of its public bounds.")
    source = TableFile(data, bounds.types(), bounds.text)
    return Party.of_table(name, source.read, store, bounds=bounds, **rights)
