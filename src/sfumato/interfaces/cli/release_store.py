"""``sfumato release store``: a private density that several processes may ask."""

from __future__ import annotations

from typing import Annotated

import typer

from sfumato.function_stores import release_to_store
from sfumato.interfaces.cli import options
from sfumato.interfaces.cli.console import printed_json, progress_bar, told
from sfumato.interfaces.cli.exit_codes import plain_errors

__all__ = ["release_store"]


def release_store(
    table: options.TablePath,
    epsilon: options.Epsilon,
    bounds: options.Bounds,
    store: Annotated[str, typer.Option(help="A SQLite file, or a postgresql:// URL.")],
    name: Annotated[str, typer.Option(help="Name of the release in the store.")],
    bandwidth: Annotated[float, typer.Option(help="Public width of a kernel.")],
    columns: Annotated[
        str, typer.Option(help="Columns to use, with commas between; by default all.")
    ] = "",
    delta: options.Delta = 1e-6,
    ledger: options.LedgerPath = None,
    dataset: options.Dataset = None,
    as_json: options.Json = False,
) -> None:
    """Release a density into a store that answers points one by one, also for other processes.

    Charged once. The rows are not needed again: sfumato query STORE --name NAME --points TABLE.

    Example: sfumato release store patients.csv --columns age --bandwidth 3 --epsilon 1 --bounds
    bounds.toml --store answers.db --name age
    """
    with plain_errors():
        source, known = options.bounded_table(table, bounds)
        promise = options.promise_of(epsilon, delta, "record", "replace_one", ledger, dataset)
        with progress_bar(f"releasing the density of {table}"):
            promised = release_to_store(
                source,
                known,
                promise,
                bandwidth=bandwidth,
                store=store,
                name=name,
                columns=options.names_from(columns),
            )
    if as_json:
        printed_json({"store": store, "name": name, "guarantee": promised.to_dict()})
    else:
        told(f"{store}: release '{name}'", str(promised))
