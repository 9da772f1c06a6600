"""The taint test for tables: odd cells, every release held fixed, all that can be seen compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sfumato.audit.testing.inspection import described, first_difference, saved_bytes
from sfumato.audit.testing.outcome import Outcome, outcome_of
from sfumato.audit.testing.taint import require
from sfumato.mechanisms.base import Tape, taped
from sfumato.mechanisms.entropy import seeded
from sfumato.tables import is_table


def compare_tables(run: Callable[[Any], Any], table: Any, others: Iterable[Any]) -> None:
    """Show that nothing but the released values tells a table from its neighbours.

    `run` is called with the table, its releases are recorded, and then with each of the others
    while these releases are played back. Results (models with their saved files, tables with their
    types, texts, bytes), warnings, logs, prints and errors must be equal to the bit.
    """
    first, tape = _seen(run, table, None)
    require(bool(tape.releases), "Nothing was released through a mechanism.")
    for number, other in enumerate(others):
        second, replay = _seen(run, other, tape)
        require(
            first.said() == second.said(),
            f"Table {number} is told by words: {first.said()} and {second.said()}.",
        )
        require(
            len(tape.releases) == len(replay.releases),
            f"Table {number} changes the number of releases.",
        )
        found = first_difference(first.result, second.result)
        require(found is None, f"Table {number} is told by {found}.")


def _seen(run: Callable[[Any], Any], table: Any, tape: Tape | None) -> tuple[Outcome, Tape]:
    with seeded(0), taped(playback=tape) as replay:
        outcome = outcome_of(run, table)
    results = () if outcome.result is None else outcome.result
    outcome.result = described([_plain(each) for each in results], "result")
    return outcome, replay


def _plain(result: Any) -> Any:
    """Return a table by its columns, and a model together with its file."""
    if is_table(result):
        names = getattr(result, "column_names", None) or list(result.columns)
        columns = [result[name] for name in names]
        types = [str(getattr(column, "dtype", None) or column.type) for column in columns]
        cells = [
            repr(column.to_list() if hasattr(column, "to_list") else column.to_pylist())
            for column in columns
        ]
        return [type(result).__module__, names, types, cells]
    return [result, saved_bytes(result)] if hasattr(result, "guarantee_") else result
