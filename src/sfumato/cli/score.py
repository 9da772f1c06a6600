"""``sfumato score``: how well a model predicts, on public rows or privately on secret ones."""

from __future__ import annotations

from typing import Annotated

import typer

from sfumato.cli import options
from sfumato.cli.console import print_json, print_lines, remark
from sfumato.cli.jobs.pipeline import table_for, target_rows
from sfumato.exceptions import InvalidInputError
from sfumato.models.saving import load
from sfumato.models.scores import measure, release_score
from sfumato.privacy.guarantee import Relation


def score(
    model: options.ModelPath,
    table: options.TablePath,
    private: Annotated[
        bool, typer.Option("--private", help="The rows are secret: add noise and charge.")
    ] = False,
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", "-e", help="The budget, with --private.")
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="With --private: accuracy or auc; r2 or mae.")
    ] = None,
    unit: options.DeclaredUnit = None,
    relation: options.NeighbourRelation = Relation.REPLACE_ONE,
    ledger: options.LedgerPath = None,
    dataset: options.Dataset = None,
    purpose: options.Purpose = None,
    by: options.By = None,
    as_json: options.Json = False,
) -> None:
    """Measure a model on a table with its target: rows that no fit has seen.

    Without --private the rows must be public, and nothing is charged. With it, one figure is
    released with noise.

    Example: sfumato score model.sfumato test.csv --private --epsilon 0.5 --ledger budget.db
    """
    loaded = load(model)
    rows, truth = target_rows(loaded, table_for(loaded, table))
    if not private:
        if epsilon is not None or metric is not None or ledger is not None:
            raise InvalidInputError(
                "'--epsilon', '--metric' and '--ledger' belong to a private score: add "
                "'--private'. Without it, the rows must be public."
            )
        found = measure(loaded, rows, truth)
        if as_json:
            print_json(found)
            return
        print_lines(*(f"{name}: {value:.4g}" for name, value in found.items()))
        remark("Measured without noise: for public rows only. For secret rows, add --private.")
        return
    if epsilon is None:
        raise InvalidInputError("'--private' needs '--epsilon'.")
    known = loaded.bounds
    promise = options.promise_of(
        epsilon, 0.0, unit, relation, ledger, dataset, known, purpose=purpose, by=by
    )
    released = release_score(loaded, rows, truth, metric=metric, **vars(promise))
    if as_json:
        record = {name: getattr(released, name) for name in ("metric", "value", "deviation")}
        print_json(record | {"guarantee": released.guarantee.to_dict()})
        return
    print_lines(f"{released.metric}: {released.value:.4g} (deviation {released.deviation:.2g})")
    print_lines(str(released.guarantee))
    if ledger is None:
        remark("No ledger was given: this release is not recorded.")
