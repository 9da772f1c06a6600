"""Small saved models of every class that can be saved, and all ways to alter one number of them.

A file that is altered and sealed again passes the hashes. It must be refused by its class, or
answer with finite numbers. Used by test_stored_forms.py.
"""

from __future__ import annotations

import copy
import io
import json
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sfumato import (
    Bounds,
    Fabricator,
    PrivateImageClassifier,
    PrivateTransferClassifier,
    TableBounds,
    load,
)
from sfumato.exceptions import SfumatoError, StoredModelError
from sfumato.models.image_features import ImageFeatures
from sfumato.models.saving import HEADER, write_members
from tests.test_common import CASES, INSTANCES


# Models by name, each with the rows that it learns from: private ones as in the contracts, and a
# transfer with its target.
def small_models() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    rng = np.random.default_rng(0)
    X, target, images = (rng.uniform(size=shape) for shape in ((60, 4), (30, 4), (60, 64)))
    y = (X[:, 0] * 3).astype(int)
    found = {
        f"{name}-{i}": (case.estimator, (case.X,) if case.y is None else (case.X, case.y))
        for name, cases in CASES.items()
        for i, case in enumerate(cases)
        if isinstance(case.estimator.bounds, Bounds)
    }
    for name, estimator in INSTANCES.items():
        has_pixels = isinstance(estimator, ImageFeatures | PrivateImageClassifier)
        if name not in CASES and name != "PrivateSearchCV":
            found[name] = estimator, (images if has_pixels else X, y)
    few = np.where(np.arange(30) < 9, (target[:, 0] * 3).astype(int), -1)
    bounds = Bounds(lower=0.0, upper=1.0, labels=[0, 1, 2])
    transfer = PrivateTransferClassifier(random_state=0, schedule=(2, 3), bounds=bounds)
    found["transfer"] = transfer, (X, y, target, few)
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1] > 0.5, "c": y})
    facts = {"a": (0, 1), "b": bool, "c": [0, 1, 2]}
    words = {"bounds": TableBounds.from_dict(facts, target="c"), "epsilon": 9.0, "random_state": 0}
    found["table"] = Fabricator(**words), (table,)
    return found


MODELS = small_models()
QUESTIONS = (
    "predict",
    "predict_proba",
    "decision_function",
    "transform",
    "distance",
    "distances",
    "layer_images",
    "errors",
    "density",
    "class_densities",
    "curve",
    "noise_std",
)


def fitted(name: str) -> tuple[Any, np.ndarray]:
    """Return a small model, and rows to ask it about."""
    estimator, given = MODELS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = clone(estimator).fit(*given)
    return model, given[2 if name == "transfer" else 0][:7]


def answers(model: Any, rows: np.ndarray) -> list[Any]:
    """Ask everything that a model of any class can be asked."""
    points = rows[:, 0] if type(model).__name__ == "PrivateMeanCurve" else rows
    found = [getattr(model, name)(points) for name in QUESTIONS if hasattr(model, name)]
    if type(model).__name__.endswith("Fabricator"):
        made = model.fabricate()
        found += made if isinstance(made, tuple) else [made]
    if type(model).__name__ == "PrivateDensity":
        made = model.sample(5, random_state=0)
        found += made if isinstance(made, tuple) else [made]
    return found


# Alterations ----------------------------------------------------------------------------------

VALUES: dict[str, Any] = {
    "none": None,
    "true": True,
    "minus one": -1,
    "zero": 0,
    "large": 10**12,
    "huge": 1e300,
    "text": "x",
    "nan": {"float": "nan"},
    "list": [],
    "dict": {"dict": {}},
}


def _arrays(array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    yield "cut", array[:-1] if array.ndim else array[None]
    yield "one axis more", array[None]
    yield "transposed", array.T
    yield "empty", array[:0] if array.ndim else np.zeros(0)
    yield "complex", array.astype(complex) if array.dtype.kind in "biuf" else np.zeros(3, complex)
    yield "text", array.astype("<U5")
    yield "zeros", np.zeros_like(array)
    if array.size and array.dtype.kind in "iuf":
        odd = (-1, 10**6) if array.dtype.kind in "iu" else (np.nan, np.inf, -np.inf, 1e38, -1.0)
        for value in odd:
            changed = array.copy()
            changed.flat[0] = value
            yield f"first {value}", changed


def members_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name != "SHA256SUMS"}


def alterations(members: dict[str, bytes]) -> Iterator[tuple[str, Callable[[], dict[str, bytes]]]]:
    """Yield all altered files, to be made when wanted, with what was altered and how."""
    header = json.loads(members[HEADER])
    for place in _places(header["model"], ()):
        value = _at(header["model"], place)
        shown = ".".join(map(str, place))
        if isinstance(value, dict) and set(value) & {"array", "scalar"}:
            (name,) = value.values()
            for kind, array in _arrays(np.lib.format.read_array(io.BytesIO(members[name]))):
                yield f"{shown}: {kind}", partial(_with_array, members, name, array)
        else:
            for kind, other in VALUES.items():
                yield (
                    f"{shown}: {kind}",
                    partial(_with, members, header, place, lambda _, o=other: o),
                )
    for section in ("learned", "parameters"):
        for name in header["model"][section]:
            yield (
                f"{section}.{name}: left out",
                partial(_with, members, header, (section,), partial(_without, name)),
            )
    yield "more", partial(_with, members, header, ("learned",), lambda old: {**old, "more_": 1})


def _without(name: str, old: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in old.items() if key != name}


def _with_array(members: dict[str, bytes], name: str, array: np.ndarray) -> dict[str, bytes]:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array)
    return {**members, name: buffer.getvalue()}


def _with(members: dict[str, bytes], header: Any, place: tuple[Any, ...], change: Any) -> Any:
    altered = copy.deepcopy(header)
    inside = _at(altered["model"], place[:-1])
    inside[place[-1]] = change(inside[place[-1]])
    text = json.dumps(altered)
    used = {HEADER: text.encode()}
    return used | {name: data for name, data in members.items() if f'"{name}"' in text}


def _places(value: Any, place: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every number, text and array; guarantees are checked by their own tests."""
    if isinstance(value, dict) and "guarantee" in value:
        return
    if isinstance(value, dict) and set(value) & {"array", "scalar", "strings", "float"}:
        yield place
    elif isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            yield from _places(inner, (*place, key))
    elif place[-1] != "class":
        yield place


def _at(value: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        value = value[key]
    return value


def reseal(path: Path, members: dict[str, bytes]) -> None:
    with path.open("wb") as file:
        write_members(file, members)


def verdict(path: Path, rows: np.ndarray) -> str:
    """Return what becomes of a file: "refused", "answers", or what is wrong with it."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            model = load(path)
        except StoredModelError as error:
            return "refused" if str(path) in str(error) else f"refused without its name: {error}"
        except Exception as error:
            return f"raw error at load: {error!r}"
        try:
            found = answers(model, rows)
        except (SfumatoError, NotFittedError):
            return "refused when asked"
        except Exception as error:
            return f"raw error: {error!r}"
    if not all(_is_finite(each) for each in found):
        return "answers that are no numbers"
    return "answers" if time.process_time() - start < 60 else "slow"


def _is_finite(answer: Any) -> bool:
    values = answer.values() if isinstance(answer, dict) else [answer]
    numbers = [np.asarray(value) for value in values]
    return all(n.dtype.kind not in "fc" or not np.isnan(n).any() for n in numbers)
