"""``sfumato fit``, ``predict`` and ``transfer``: private models of a table, and their answers."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.console import (
    print_json,
    print_lines,
    progress_bar,
    ready_to_write,
    remark,
    write_or_rescue,
)
from sfumato.cli.jobs.images import are_images, fit_images, predict_images, read_images
from sfumato.cli.jobs.pipeline import (
    PrivacyRequest,
    fit_table,
    is_in_parts,
    offered_models,
    open_table,
    predict_table,
    table_for,
    transfer_table,
)
from sfumato.cli.jobs.publishing import query_table
from sfumato.exceptions import InvalidInputError
from sfumato.models.images import IMAGE_FEATURES, PrivateImageClassifier
from sfumato.models.saving import load, save
from sfumato.privacy.guarantee import Relation, Unit
from sfumato.tables.files import FORMATS, TableFile, write_table

ModelOutput = Annotated[
    Path, typer.Option("--output", "-o", help="The model file to write (.sfumato).")
]


def fit(
    table: options.TablePath,
    epsilon: options.Epsilon,
    output: ModelOutput,
    bounds: Annotated[
        Path | None,
        typer.Option("--bounds", "-b", help="The confirmed bounds, see `sfumato describe`."),
    ] = None,
    target: options.TargetName = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            help=f"One of {', '.join(offered_models())}; by default chosen by the target.",
            autocompletion=options.completing(offered_models()),
        ),
    ] = None,
    delta: options.Delta = 1e-6,
    unit: options.DeclaredUnit = None,
    person: options.PersonName = None,
    person_rows: options.PersonRows = None,
    relation: options.NeighbourRelation = Relation.REPLACE_ONE,
    ledger: options.LedgerPath = None,
    dataset: options.Dataset = None,
    purpose: options.Purpose = None,
    by: options.By = None,
    settings: options.Settings = None,
    reading: options.Reading = None,
    probabilities: Annotated[
        bool,
        typer.Option("--probabilities", help="Refuse a model without them, before any charge."),
    ] = False,
    image_size: Annotated[
        str | None,
        typer.Option(
            "--image-size",
            metavar="HEIGHTxWIDTH[xCHANNELS]",
            help="For images: the public size to which each is resized, such as 32x32x3.",
        ),
    ] = None,
    image_features: Annotated[
        str, typer.Option(help=f"For images: {', '.join(IMAGE_FEATURES)}.")
    ] = "best",
    labels: Annotated[
        str | None,
        typer.Option(help="For arrays of images: the public labels, separated by commas."),
    ] = None,
    engine: options.Engine = None,
    as_json: options.Json = False,
) -> None:
    """Train a private model on a table and write it to one file.

    The bounds must have been confirmed. The ledger, if there is one, is charged before any
    noise is drawn. Without --model, a public rule chooses: additive for labels (linear if there
    are many columns for the rows), a regressor for a target with a range. A table may be a glob
    or a folder of files larger than memory, or be read by a cluster ('--engine'). A folder of
    images with one subfolder per label, or a file of arrays (.npz with X and y), gives a linear
    model of public image features; it needs no bounds, but a folder needs '--image-size'.

    Example: sfumato fit patients.csv --target diagnosis --epsilon 1 --bounds bounds.toml -o
    model.sfumato
    """
    ready_to_write(output, ".sfumato")
    asked = partial(options.promise_of, epsilon, delta, unit, relation, ledger, dataset)
    is_table = bounds is not None and is_in_parts(table, engine)
    if not is_table and are_images(table):
        promise = asked(purpose=purpose, by=by)
        if model not in (None, "linear"):
            raise InvalidInputError(f"Images need the model linear. Got {model!r}.")
        size = None if image_size is None else image_size.lower().split("x")
        if size is not None and (len(size) not in (2, 3) or not all(s.isdigit() for s in size)):
            raise InvalidInputError(f"'--image-size' must look like 32x32x3. Got {image_size!r}.")
        images = read_images(table, None if size is None else tuple(map(int, size)))
        listed: list[Any] | None = None if labels is None else options.names_from(labels)
        if listed is not None and images.y is not None and images.y.dtype.kind in "iu":
            if not all(label.lstrip("-").isdigit() for label in listed):
                raise InvalidInputError(
                    "The labels of these images are whole numbers: '--labels 0,1'."
                )
            listed = [int(label) for label in listed]
        fitted = fit_images(images, promise, image_features=image_features, labels=listed)
    else:
        known = options.known_bounds(bounds, person, person_rows, reading)
        promise = asked(known, purpose=purpose, by=by)
        with open_table(table, known, engine) as source:
            options.warn_of_few(source, promise)
            with progress_bar(f"training {model or 'a model'} on {table}") as advance:
                fitted = fit_table(
                    source,
                    known,
                    promise,
                    model=model,
                    target=target,
                    options=options.settings_from(settings),
                    progress=advance,
                    probabilities=probabilities,
                )
    write_or_rescue(partial(save, fitted), output)
    options.print_release(fitted, output, promise, as_json=as_json)


def predict(
    model: options.ModelPath,
    table: options.TablePath,
    output: Annotated[Path, typer.Option("--output", "-o", help="The table to write.")],
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Add a column for each label.")
    ] = False,
    keep: Annotated[
        list[str] | None, typer.Option(help="A column to copy to the output; may be repeated.")
    ] = None,
    reading: options.Reading = None,
    as_json: options.Json = False,
) -> None:
    """Predict the label of every row of a table, or evaluate a released density or curve there.

    Any model file of Sfumato will do. A model that was trained on arrays takes the columns in
    their order; an image model takes a folder of images or an .npz with X. Predictions cost no
    budget.

    Example: sfumato predict model.sfumato new.csv -o predictions.csv --keep id
    """
    ready_to_write(output, *FORMATS)
    loaded, new = load(model), Counter[str]()
    with progress_bar(f"predicting {table}"):
        if isinstance(loaded, PrivateImageClassifier):
            found = predict_images(loaded, table, probabilities=probabilities)
        elif hasattr(loaded, "density") or hasattr(loaded, "curve"):
            found = query_table(loaded, TableFile(table))
        else:
            source = table_for(loaded, table, **options.reading_from(reading))
            kept = tuple(keep or ())
            found = predict_table(
                loaded, source, probabilities=probabilities, keep=kept, new_categories=new
            )
    write_table(found, output)
    if as_json:
        told = {"output": str(output), "rows": len(found), "columns": found.column_names}
        print_json({**told, "new_categories": dict(new)})
        return
    print_lines(f"{output}: {len(found)} predictions.")
    for name, count in new.items():
        remark(
            f"{name!r}: {count} of {len(found)} cells contain a category that the bounds do not "
            "list; they count as missing."
        )


def transfer(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="The private table with many labels.")
    ],
    target: Annotated[
        Path,
        typer.Argument(
            metavar="TARGET", help="The table with few labels; leave cells without a label empty."
        ),
    ],
    epsilon: options.Epsilon,
    bounds: options.Bounds,
    output: ModelOutput,
    delta: options.Delta = 1e-6,
    unit: options.DeclaredUnit = None,
    relation: options.NeighbourRelation = Relation.REPLACE_ONE,
    ledger: options.LedgerPath = None,
    dataset: options.Dataset = None,
    purpose: options.Purpose = None,
    by: options.By = None,
    protect_target: Annotated[
        bool, typer.Option("--protect-target", help="Protect the records of TARGET as well.")
    ] = False,
    target_epsilon: Annotated[
        float | None, typer.Option(help="The target's own epsilon; by default --epsilon.")
    ] = None,
    target_delta: Annotated[
        float | None, typer.Option(help="The target's own delta; by default --delta.")
    ] = None,
    target_ledger: Annotated[
        str | None,
        typer.Option(help="The ledger that pays for the target; 'none' to keep no record."),
    ] = None,
    target_dataset: Annotated[
        str | None,
        typer.Option(help="The data set in that ledger; not needed if there is only one."),
    ] = None,
    settings: options.Settings = None,
    as_json: options.Json = False,
) -> None:
    """Train a classifier for a table with few labels, helped by a private table with many.

    The guarantee covers the rows of the source and, with --protect-target, those of the target,
    by a separate release with its own budget and ledger. Both tables must have the columns of
    the bounds.

    Example: sfumato transfer hospital.csv clinic.csv --epsilon 1 --bounds bounds.toml -o
    clinic.sfumato
    """
    ready_to_write(output, ".sfumato")
    known = options.known_bounds(bounds)
    promise = options.promise_of(
        epsilon, delta, unit, relation, ledger, dataset, known, purpose=purpose, by=by
    )
    of_target = None
    if protect_target:
        if promise.ledger is not None and target_ledger is None:
            raise InvalidInputError(
                "'--ledger' pays for the source only: name the one that pays for the target with "
                "'--target-ledger', or give '--target-ledger none' to keep no record."
            )
        if target_dataset is not None and target_ledger in (None, "none"):
            raise InvalidInputError(
                "'--target-dataset' names a budget of a ledger: give '--target-ledger' too."
            )
        of_target = PrivacyRequest(
            epsilon if target_epsilon is None else target_epsilon,
            delta if target_delta is None else target_delta,
            Unit.RECORD,
            promise.relation,
            None
            if target_ledger in (None, "none")
            else options.payer(target_ledger, target_dataset),
        )
    elif any(x is not None for x in (target_epsilon, target_delta, target_ledger, target_dataset)):
        raise InvalidInputError("A budget for the target needs '--protect-target': give it too.")
    with progress_bar(f"transferring from {source} to {target}"):
        fitted = transfer_table(
            TableFile(source, known.types(), known.text),
            TableFile(target, known.types()),
            known,
            promise,
            target_promise=of_target,
            options=options.settings_from(settings),
        )
        write_or_rescue(partial(save, fitted), output)
    options.print_release(fitted, output, promise, of_target, as_json=as_json)
