"""``sfumato fit``: a private classifier from a table."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.console import (
    print_lines,
    printed_json,
    progress_bar,
    ready_to_write,
    remark,
    write_or_rescue,
)
from sfumato.cli.exit_codes import plain_errors
from sfumato.cli.jobs.images import are_images, fit_images, read_images
from sfumato.cli.jobs.partitioned import is_in_parts, opened
from sfumato.cli.jobs.pipeline import PrivacyRequest, fit_table, offered_models
from sfumato.exceptions import InvalidInputError
from sfumato.models.images import IMAGE_FEATURES
from sfumato.models.saving import save
from sfumato.privacy.guarantee import Relation

ModelName = Annotated[
    str | None,
    typer.Option(
        "--model",
        help=f"One of {', '.join(offered_models())}; by default chosen by the target.",
        autocompletion=options.completing(offered_models()),
    ),
]
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
    model: ModelName = None,
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
    image_size: options.ImageSize = None,
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
    with plain_errors():
        ready_to_write(output, ".sfumato")
        asked = partial(options.promise_of, epsilon, delta, unit, relation, ledger, dataset)
        is_table = bounds is not None and is_in_parts(table, engine)
        if not is_table and are_images(table):
            promise = asked(purpose=purpose, by=by)
            fitted = _fit_images(table, promise, model, image_size, image_features, labels)
        else:
            known = options.known_bounds(_given(bounds), person, person_rows, reading)
            promise = asked(known, purpose=purpose, by=by)
            with opened(table, known, engine) as source:
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
    print_result(fitted, output, promise, as_json=as_json)


def _given(bounds: Path | None) -> Path:
    if bounds is None:
        raise InvalidInputError("A table needs its confirmed bounds: give '--bounds'.")
    return bounds


def _fit_images(
    path: Path,
    promise: PrivacyRequest,
    model: str | None,
    size: str | None,
    features: str,
    labels: str | None,
) -> Any:
    if model not in (None, "linear"):
        raise InvalidInputError(f"Images need the model linear. Got {model!r}.")
    images = read_images(path, options.size_from(size))
    listed: list[Any] | None = None if labels is None else options.names_from(labels)
    if listed is not None and images.y is not None and images.y.dtype.kind in "iu":
        if not all(label.lstrip("-").isdigit() for label in listed):
            raise InvalidInputError("The labels of these images are whole numbers: '--labels 0,1'.")
        listed = [int(label) for label in listed]
    return fit_images(images, promise, image_features=features, labels=listed)


def print_result(
    fitted: Any,
    output: Path,
    promise: PrivacyRequest,
    target: PrivacyRequest | None = None,
    *,
    as_json: bool,
) -> None:
    """Print what was released, under which guarantee, and who paid; also for a protected target."""
    names = () if target is None else ("source", "target")
    parts = {name: getattr(fitted, f"{name}_guarantee_") for name in names}
    if as_json:
        record = {"output": str(output), "class": type(fitted).__name__}
        record["guarantee"] = fitted.guarantee_.to_dict()
        printed_json(record | {f"{name}_guarantee": g.to_dict() for name, g in parts.items()})
        return
    print_lines(f"{output}: {type(fitted).__name__}", str(fitted.guarantee_))
    print_lines(*(f"For a record of the {name}: {each}" for name, each in parts.items()))
    _print_ledger_line(promise, "this release")
    if target is not None:
        _print_ledger_line(target, "the release of the target")


def _print_ledger_line(promise: PrivacyRequest, release: str) -> None:
    if promise.ledger is None:
        remark(f"No ledger was given: {release} is not recorded.")
        return
    statement = promise.ledger.statement()
    print_lines(*_delta_note(promise, statement.budget.delta))
    print_lines(
        f"Ledger '{promise.ledger.name}': spent {statement.spent:.4g} of epsilon "
        f"{statement.budget.epsilon:g} at delta {statement.budget.delta:g}."
    )


def _delta_note(promise: PrivacyRequest, delta: float) -> list[str]:
    """Return what a release counts as where its delta is not that of the budget."""
    past = promise.ledger.history()
    if promise.delta == delta or not past:
        return []
    return [
        f"Epsilon {promise.epsilon:g} at delta {promise.delta:g} counts as {past[-1].epsilon:.3g} "
        f"at the budget's delta {delta:g}."
    ]
