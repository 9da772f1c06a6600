"""``sfumato federate``: learn among simulated parties that share no rows."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from click import Choice

from sfumato.cli import options
from sfumato.cli.console import print_json, print_lines, ready_to_write, remark
from sfumato.cli.jobs.pipeline import PrivacyRequest, all_labelled_rows, class_of, make_model
from sfumato.exceptions import InvalidInputError
from sfumato.federated import Federation, make_parties, simulate
from sfumato.federated.federation import TRUST
from sfumato.federated.simulation import SCENARIOS
from sfumato.models.saving import save
from sfumato.privacy.guarantee import Relation, Unit
from sfumato.tables.encoder import TableEncoder
from sfumato.tables.files import TableFile

MODELS = ("gaussian", "linear", "additive", "hull", "regressor", "additive-regressor")


def federate(
    table: options.TablePath,
    epsilon: options.Epsilon,
    bounds: options.Bounds,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the global model (.sfumato).")
    ] = None,
    parties: Annotated[int, typer.Option("--parties", help="Number of parties.")] = 10,
    scenario: Annotated[
        str, typer.Option("--scenario", click_type=Choice(SCENARIOS), help="How rows are dealt.")
    ] = "random",
    test: Annotated[
        Path | None, typer.Option("--test", help="A table to score the global model on.")
    ] = None,
    target: options.TargetName = None,
    task: Annotated[
        str,
        typer.Option(
            "--task",
            click_type=Choice(["sums", "hulls"]),
            help="Fit a model to sums over the parties, or merge class hulls of each party.",
        ),
    ] = "sums",
    model: Annotated[
        str, typer.Option("--model", click_type=Choice(MODELS), help="sums: what is fitted.")
    ] = "gaussian",
    trust: Annotated[
        str, typer.Option("--trust", click_type=Choice(TRUST), help="sums: what parties send.")
    ] = "secure",
    colluding: Annotated[
        int, typer.Option("--colluding", help="secure: parties that may work with the coordinator.")
    ] = 1,
    dropouts: Annotated[
        int, typer.Option("--dropouts", help="sums: parties that may drop out.")
    ] = 0,
    delta: options.Delta = 1e-6,
    unit: Annotated[
        str | None,
        typer.Option(
            "--unit", click_type=Choice([Unit.RECORD]), help="Needed if the bounds name persons."
        ),
    ] = None,
    relation: options.NeighbourRelation = Relation.REPLACE_ONE,
    settings: options.Settings = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Seed for dealing rows to parties.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Deal the rows of a table to parties and learn from them without sharing a row.

    Example: sfumato federate patients.parquet --model additive --parties 10
    --epsilon 3 --bounds bounds.toml --test later.parquet -o global.sfumato
    """
    ready_to_write(output, ".sfumato")
    known = options.known_bounds(bounds)
    known.require_target(target)
    if unit is None and known.person is not None:
        raise InvalidInputError(
            "The bounds name persons, but parties protect records. Add '--unit record' if that "
            "is what you want."
        )
    promise = PrivacyRequest(epsilon, delta, str(Unit.RECORD), str(relation))
    chosen = options.settings_from(settings)
    source = TableFile(table, known.types(), known.text)
    later = None if test is None else TableFile(test, known.types(), known.text)
    dealt: dict[str, Any] = {"scenario": scenario, "n_parties": parties, "random_state": seed}
    dealt["relation"] = str(relation)
    with tempfile.TemporaryDirectory() as folder:
        if task == "sums":
            wanted = make_model(class_of(model), promise, known, chosen)
            everybody = make_parties(source.read(), None, folder, bounds=known, **dealt)
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
            fitted = wanted.fit(federation)
            told = federation.to_dict(fitted.guarantee_)
            if later is not None:
                rows = later.read()
                told["score"] = float(fitted.score(rows, known.target_of(rows)))
            sent = sum(each.sent for each in federation.rounds) / 2**20
            lines = [
                f"{len(told['parties'])} parties, {len(federation.rounds)} sums, {sent:.2f} MB "
                f"from a party at most; together: {fitted.guarantee_}"
            ]
        else:
            inside = TableEncoder(known).row_bounds()
            wanted = make_model(class_of("hull"), promise, inside, chosen)
            rows, labels = all_labelled_rows(source, known)
            everybody = make_parties(rows, labels, folder, bounds=wanted.row_bounds, **dealt)
            remark(f"{len(everybody)} parties ...")
            found = simulate(everybody, wanted)
            fitted, told = found.model, found.to_dict()
            if later is not None:
                rows, labels = all_labelled_rows(later, known)
                told["score"] = float(np.mean(found.model.predict(rows) == labels))
            lines = [str(found)]
        if output is not None:
            save(fitted, output)
    if as_json:
        print_json(told)
    else:
        if test is not None:
            print_lines(f"score on the test table: {told['score']:.4f}")
        print_lines(*lines)
    remark("A simulation has no ledger: this release is not recorded.")
