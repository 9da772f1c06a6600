"""``sfumato federate``: learn among simulated parties that share no rows."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from sfumato.cli import options
from sfumato.cli.console import print_json, print_lines, ready_to_write, remark
from sfumato.cli.jobs.pipeline import PrivacyRequest, all_labelled_rows, class_of, make_model
from sfumato.exceptions import InvalidInputError
from sfumato.federated import Federation, HullTask, make_parties, simulate
from sfumato.federated.simulation import SCENARIOS
from sfumato.models.saving import save
from sfumato.privacy.guarantee import Relation, Unit
from sfumato.tables.encoder import TableEncoder
from sfumato.tables.files import TableFile

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


def federate(
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
    seed: Annotated[
        int | None, typer.Option("--seed", help="Seed for dealing rows to parties.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Deal the rows of a table to parties and learn from them without sharing a row.

    Example: sfumato federate patients.parquet --task sums --model additive --parties 10
    --epsilon 3 --bounds bounds.toml --test later.parquet -o global.sfumato
    """
    ready_to_write(output, ".sfumato")
    if serve == "distances" and output is not None:
        raise InvalidInputError(
            "Hulls served as distances stay with their parties: leave out '-o'."
        )
    known = options.known_bounds(bounds)
    known.require_target(target)
    if unit is None and known.person is not None:
        raise InvalidInputError(
            "The bounds name persons, but parties protect records. Add '--unit record' if that "
            "is what you want."
        )
    promise = PrivacyRequest(epsilon, delta, str(unit or Unit.RECORD), str(relation))
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
        elif task == "hulls":
            inside = TableEncoder(known).row_bounds()
            wanted = make_model(class_of("hull"), promise, inside, chosen)
            rows, labels = all_labelled_rows(source, known)
            everybody = make_parties(rows, labels, folder, bounds=wanted.row_bounds, **dealt)
            remark(f"{len(everybody)} parties ...")
            found = simulate(everybody, HullTask("simulation", wanted, serve))
            fitted, told = found.model, found.to_dict()
            if later is not None:
                rows, labels = all_labelled_rows(later, known)
                told["score"] = float(np.mean(found.model.predict(rows) == labels))
            lines = [*map(str, found.rounds)]
            lines.append(f"{len(found.guarantees)} parties; together: {found.total}")
        else:
            raise InvalidInputError(f"'--task' must be 'hulls' or 'sums'. Got {task!r}.")
        if output is not None:
            save(fitted, output)
    if as_json:
        print_json(told)
    else:
        if test is not None:
            print_lines(f"score on the test table: {told['score']:.4f}")
        print_lines(*lines)
    remark("A simulation has no ledger: this release is not recorded.")
