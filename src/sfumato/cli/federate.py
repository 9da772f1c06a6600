"""``sfumato federate``: learn among parties that share no rows."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from sfumato.cli import options
from sfumato.cli.console import print_lines, printed_json, remark
from sfumato.cli.exit_codes import plain_errors
from sfumato.cli.jobs.pipeline import (
    PrivacyRequest,
    all_labelled_rows,
    class_of,
    make_model,
    offered_models,
)
from sfumato.exceptions import InvalidInputError
from sfumato.federated import Federation, HullTask, make_parties, simulate
from sfumato.federated.simulation import SCENARIOS
from sfumato.models.saving import save
from sfumato.privacy.guarantee import Relation, Unit
from sfumato.tables.encoder import TableEncoder
from sfumato.tables.files import TableFile
from sfumato.tables.schema import TableBounds

federate_app = typer.Typer(
    help="Learn among parties that share no rows, with Flower.",
    no_args_is_help=True,
    add_completion=False,
)

SumsModel = Annotated[
    str, typer.Option("--model", help="sums: gaussian, linear, additive, hull, regressor, ...")
]
Trust = Annotated[str, typer.Option("--trust", help="sums: 'secure' or 'noisy'.")]
Colluding = Annotated[
    int, typer.Option("--colluding", help="secure: parties that may work with the coordinator.")
]
Dropouts = Annotated[int, typer.Option("--dropouts", help="sums: parties that may drop out.")]
Serve = Annotated[
    str, typer.Option("--serve", help="hulls: whether 'models' or 'distances' leave a party.")
]


@federate_app.command("simulate")
def simulate_command(
    table: options.TablePath,
    epsilon: options.Epsilon,
    bounds: options.Bounds,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the global model (.sfumato).")
    ] = None,
    parties: Annotated[int, typer.Option("--parties", help="Number of parties.")] = 10,
    scenario: Annotated[
        str, typer.Option("--scenario", help=f"One of {', '.join(SCENARIOS)}.")
    ] = "random",
    test: Annotated[
        Path | None, typer.Option("--test", help="A table to score the global model on.")
    ] = None,
    target: options.TargetName = None,
    serve: Serve = "models",
    delta: options.Delta = 1e-6,
    unit: options.DeclaredUnit = None,
    relation: options.NeighbourRelation = Relation.REPLACE_ONE,
    settings: options.Settings = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Seed for dealing rows to parties.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Deal the rows of a table to parties and learn from them without sharing a row.

    Example: sfumato federate simulate patients.parquet --parties 10 --scenario uneven --epsilon 3
    --bounds bounds.toml --test later.parquet -o global.sfumato
    """
    with plain_errors(), tempfile.TemporaryDirectory() as folder:
        source, known = options.bounded_table(table, bounds)
        promise = PrivacyRequest(epsilon, delta, _unit(unit, known), str(relation))
        known.require_target(target)
        rows_bounds, chosen = TableEncoder(known).row_bounds(), options.settings_from(settings)
        hulls = make_model(offered_models()["hull"], promise, rows_bounds, chosen)
        wanted = HullTask("simulation", hulls, serve)
        rows, labels = all_labelled_rows(source, known)
        everybody = make_parties(
            rows,
            labels,
            folder,
            scenario=scenario,
            n_parties=parties,
            relation=str(relation),
            bounds=wanted.estimator.row_bounds,
            random_state=seed,
        )
        remark(f"{len(everybody)} parties ...")
        found = simulate(everybody, wanted)
        score = None
        if test is not None:
            later, y = all_labelled_rows(TableFile(test, known.types(), known.text), known)
            score = float(np.mean(found.model.predict(later) == y))
        if output is not None:
            if serve == "distances":
                raise InvalidInputError(
                    "Hulls served as distances stay with their parties: leave out '-o'."
                )
            save(found.model, output)
    if as_json:
        printed_json({**found.to_dict(), "accuracy": score})
    else:
        print_lines(*(str(each) for each in found.rounds))
        if score is not None:
            print_lines(f"accuracy on the test table: {score:.4f}")
        print_lines(f"{len(found.guarantees)} parties; together: {found.total}")
    remark("A simulation has no ledger: this release is not recorded.")


@federate_app.command("sums")
def sums_command(
    table: options.TablePath,
    epsilon: options.Epsilon,
    bounds: options.Bounds,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the global model (.sfumato).")
    ] = None,
    model: SumsModel = "gaussian",
    trust: Trust = "secure",
    colluding: Colluding = 1,
    dropouts: Dropouts = 0,
    parties: Annotated[int, typer.Option("--parties", help="Number of parties.")] = 10,
    scenario: Annotated[
        str, typer.Option("--scenario", help=f"One of {', '.join(SCENARIOS)}.")
    ] = "random",
    test: Annotated[
        Path | None, typer.Option("--test", help="A table to score the global model on.")
    ] = None,
    target: options.TargetName = None,
    delta: options.Delta = 1e-6,
    unit: options.DeclaredUnit = None,
    relation: options.NeighbourRelation = Relation.REPLACE_ONE,
    settings: options.Settings = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Seed for dealing rows to parties.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Deal the rows of a table to parties and fit any model that learns from sums to all of them.

    Example: sfumato federate sums patients.parquet --model additive --trust secure --parties 10
    --epsilon 3 --bounds bounds.toml --test later.parquet -o global.sfumato
    """
    with plain_errors(), tempfile.TemporaryDirectory() as folder:
        source, known = options.bounded_table(table, bounds)
        promise = PrivacyRequest(epsilon, delta, _unit(unit, known), str(relation))
        known.require_target(target)
        wanted = make_model(class_of(model), promise, known, options.settings_from(settings))
        everybody = make_parties(
            source.read(),
            None,
            folder,
            bounds=known,
            scenario=scenario,
            n_parties=parties,
            relation=str(relation),
            random_state=seed,
        )
        remark(f"{len(everybody)} parties ...")
        federation = Federation(
            everybody,
            bounds=known,
            trust=trust,
            relation=str(relation),
            colluding=colluding,
            dropouts=dropouts,
            watch=lambda each: remark(str(each)),
        )
        found = wanted.fit(federation)
        told = federation.to_dict(found.guarantee_)
        if test is not None:
            later = TableFile(test, known.types(), known.text).read()
            told["score"] = float(found.score(later, known.target_of(later)))
        if output is not None:
            save(found, output)
    if as_json:
        printed_json(told)
        return
    if test is not None:
        print_lines(f"score on the test table: {told['score']:.4f}")
    sent = sum(each.sent for each in federation.rounds) / 2**20
    print_lines(
        f"{len(told['parties'])} parties, {len(federation.rounds)} sums, {sent:.2f} MB from a "
        f"party at most; together: {found.guarantee_}"
    )
    remark("A simulation has no ledger: this release is not recorded.")


def _unit(unit: Unit | None, known: TableBounds) -> str:
    """Return what is protected; that it is no person must be said where the bounds name one."""
    if unit is None and known.person is not None:
        raise InvalidInputError(
            "The bounds name persons, but parties protect records. Add '--unit record' if that "
            "is what you want."
        )
    return str(Unit.RECORD if unit is None else unit)
