"""``sfumato federate``: learn among parties that share no rows."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

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
from sfumato.federated import (
    FederatedResult,
    HullTask,
    SumsTask,
    make_parties,
    make_table_parties,
    simulate,
)
from sfumato.federated.carrying import InThisProcess
from sfumato.federated.results import summary
from sfumato.federated.scenarios import SCENARIOS
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

Kind = Annotated[str, typer.Option("--task", help="'hulls', or 'sums' for any --model.")]
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
Name = Annotated[str, typer.Option("--name", help="Name of the task; its releases are made once.")]


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
        wanted = _hulls("simulation", known, promise, target, serve, settings)
        rows, labels = _rows(source, known, target)
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
        score = None if test is None else _score(found, test, known, target)
        if output is not None:
            if serve == "distances":
                raise InvalidInputError(
                    "Hulls served as distances stay with their parties: leave out '-o'."
                )
            save(found.model, output)
    _stated(found, score, as_json=as_json)
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
        wanted = _sums(
            "simulation", known, promise, target, model, (trust, colluding, dropouts), settings
        )
        everybody = make_table_parties(
            source.read(),
            folder,
            bounds=known,
            scenario=scenario,
            n_parties=parties,
            relation=str(relation),
            random_state=seed,
        )
        remark(f"{len(everybody)} parties ...")
        carrier = InThisProcess(everybody, None)
        found, federation = wanted.fit(carrier, watch=lambda each: remark(str(each)))
        told = federation.to_dict(found.guarantee_)
        if test is not None:
            told["score"] = _table_score(found, test, known)
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


@federate_app.command("deploy")
def deploy(
    folder: Annotated[Path, typer.Argument(help="A new folder for the files.")],
    epsilon: options.Epsilon,
    bounds: options.Bounds,
    party: Annotated[list[str], typer.Option("--party", help="Name of a party; may be repeated.")],
    host: Annotated[str, typer.Option("--host", help="Where parties reach the coordinator.")],
    name: Name,
    port: Annotated[int, typer.Option("--port", help="The published port.")] = 8443,
    certificates: Annotated[
        bool, typer.Option("--certificates", help="Also create an authority and a certificate.")
    ] = False,
    target: options.TargetName = None,
    task: Kind = "hulls",
    serve: Serve = "models",
    model: SumsModel = "gaussian",
    trust: Trust = "secure",
    colluding: Colluding = 1,
    dropouts: Dropouts = 0,
    delta: options.Delta = 1e-6,
    unit: options.DeclaredUnit = None,
    relation: options.NeighbourRelation = Relation.REPLACE_ONE,
    settings: options.Settings = None,
) -> None:
    """Write the Flower configuration of a real federation: coordinator, parties, certificates.

    Example: sfumato federate deploy federation --name diabetes-1 --party clinic-a --party clinic-b
    --host coordinator.example.org --epsilon 3 --bounds bounds.toml --certificates
    """
    with plain_errors():
        from sfumato.federated.flower.deployment import write_deployment

        known = TableBounds.read(bounds)
        known.require_confirmed()
        promise = PrivacyRequest(epsilon, delta, _unit(unit, known), str(relation))
        wanted: HullTask | SumsTask
        if task == SumsTask.kind:
            how = (trust, colluding, dropouts)
            wanted = _sums(name, known, promise, target, model, how, settings)
        elif task == HullTask.kind:
            wanted = _hulls(name, known, promise, target, serve, settings)
        else:
            raise InvalidInputError(f"'--task' must be 'hulls' or 'sums'. Got {task!r}.")
        written = write_deployment(
            folder, wanted, party, host=host, port=port, certificates=certificates
        )
    print_lines(f"{written}: start with README.md in it.")


def _sums(
    name: str,
    known: TableBounds,
    promise: PrivacyRequest,
    target: str | None,
    model: str,
    how: tuple[str, int, int],
    settings: list[str] | None,
) -> SumsTask:
    """Return the task that fits a model to sums over the parties' tables."""
    known.require_target(target)
    chosen = options.settings_from(settings)
    kind = class_of(model)
    return SumsTask(name, make_model(kind, promise, known, chosen), *how)


def _unit(unit: Unit | None, known: TableBounds) -> str:
    """Return what is protected; that it is no person must be said where the bounds name one."""
    if unit is None and known.person is not None:
        raise InvalidInputError(
            "The bounds name persons, but parties protect records. Add '--unit record' if that "
            "is what you want."
        )
    return str(Unit.RECORD if unit is None else unit)


def _table_score(found: Any, test: Path, known: TableBounds) -> float:
    later = TableFile(test, known.types(), known.text).read()
    return float(found.score(later, known.target_of(later)))


def _hulls(
    name: str,
    known: TableBounds,
    promise: PrivacyRequest,
    target: str | None,
    serve: str,
    settings: list[str] | None,
) -> HullTask:
    known.require_target(target)
    bounds = TableEncoder(known).row_bounds()
    chosen = options.settings_from(settings)
    return HullTask(name, make_model(offered_models()["hull"], promise, bounds, chosen), serve)


def _rows(
    source: TableFile, known: TableBounds, target: str | None
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    known.require_target(target)
    return all_labelled_rows(source, known)


def _score(found: FederatedResult, test: Path, known: TableBounds, target: str | None) -> float:
    rows, labels = _rows(TableFile(test, known.types(), known.text), known, target)
    return float(np.mean(found.model.predict(rows) == labels))


def _stated(found: FederatedResult, score: float | None, *, as_json: bool) -> None:
    if as_json:
        printed_json({**summary(found), "accuracy": score})
        return
    print_lines(*(str(each) for each in found.rounds))
    if score is not None:
        print_lines(f"accuracy on the test table: {score:.4f}")
    print_lines(f"{len(found.guarantees)} parties; together: {found.total}")
