"""Many branches: fitted side by side, and asked about many rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from sfumato.core.arrays import Array, cast, clip_to_finite, like, namespace_of
from sfumato.core.parallel import map_in_parallel
from sfumato.models.mappings.branch import Branch, errors, filtered, fit_branch, layer_outputs

BATCH_ROWS = 1024
SEEDS = 2**31 - 1


def seed_from(random_state: Any) -> int:
    """Draw one seed of public randomness."""
    return int(check_random_state(random_state).randint(SEEDS))


def fit_branches(
    groups: Sequence[Array],
    *,
    n_jobs: int | None,
    verbose: bool,
    generator: np.random.RandomState,
    **parameters: Any,
) -> list[Branch]:
    """Fit one branch to each group of rows."""
    seeds = generator.randint(SEEDS, size=len(groups)).tolist()
    items = list(zip(range(len(groups)), seeds, strict=True))
    return map_in_parallel(
        partial(_fit_one, groups, parameters),
        items,
        n_jobs=n_jobs,
        progress="Fitting autoencoders" if verbose else None,
    )


def _fit_one(groups: Sequence[Array], parameters: dict[str, Any], item: tuple[int, int]) -> Branch:
    number, seed = item
    return fit_branch(groups[number], seed=seed, **parameters)


def branch_errors(
    branches: Sequence[Branch], rows: Array, *, n_jobs: int | None, verbose: bool = False
) -> Array:
    """Return the squared error of every row under every branch, shape (n_rows, n_branches)."""
    rows = like(branches[0]["centre"], rows)
    return _in_batches(partial(_errors_of_each, branches), rows, n_jobs=n_jobs, verbose=verbose)


def filtered_by(branches: Sequence[Branch], numbers: NDArray[np.intp], rows: Array) -> Array:
    """Return each row as filtered by the branch whose number is given for it."""
    xp = namespace_of(branches[0]["centre"])
    rows = like(branches[0]["centre"], rows)
    order, parts = [], []
    for number in np.unique(numbers):
        (places,) = np.nonzero(numbers == number)
        chosen = xp.take(rows, like(rows, places), axis=0)
        parts.append(evaluate(branches[int(number)], filtered, chosen))
        order.append(places)
    back = np.argsort(np.concatenate(order))
    return xp.take(xp.concat(parts, axis=0), like(rows, back), axis=0)


def evaluate(branch: Branch, function: Callable[[Branch, Array], Array], rows: Array) -> Array:
    """Apply `filtered`, or `layer_outputs`, in batches, and put the centre back."""
    answers = _in_batches(
        partial(_evaluate_batch, branch, function), like(branch["centre"], rows), n_jobs=None
    )
    return answers + cast(branch["centre"], _precision(branch))


def _errors_of_each(branches: Sequence[Branch], rows: Array) -> Array:
    found = [errors(branch, _centred(branch, rows)) for branch in branches]
    return namespace_of(rows).stack(found, axis=1)


def _evaluate_batch(
    branch: Branch, function: Callable[[Branch, Array], Array], rows: Array
) -> Array:
    answer = function(branch, _centred(branch, rows))
    return namespace_of(rows).stack(list(answer), axis=1) if function is layer_outputs else answer


def _centred(branch: Branch, rows: Array) -> Array:
    """Take the centre off in double precision, so that an offset costs no digits."""
    precision = _precision(branch)
    return cast(clip_to_finite(cast(rows, "float64") - branch["centre"], precision), precision)


def _precision(branch: Branch) -> str:
    single = namespace_of(branch["project"]).float32
    return "float32" if branch["project"].dtype == single else "float64"


def _in_batches(
    task: Callable[[Array], Array], rows: Array, *, n_jobs: int | None, verbose: bool = False
) -> Array:
    n = int(rows.shape[0])
    batches = [rows[i : min(i + BATCH_ROWS, n), :] for i in range(0, n, BATCH_ROWS)]
    progress = "Filtering rows" if verbose else None
    answers = map_in_parallel(task, batches, n_jobs=n_jobs, progress=progress)
    return namespace_of(answers[0]).concat(answers, axis=0)
