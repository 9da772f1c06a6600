"""A density of a table in a store that several processes may ask: one charge, any number of points.

The store holds the released coordinates and every answer that was given. The rows are needed when
the release begins and never again. Two tables that differ in one row differ by at most
``D = √2 / (n normaliser)`` in the space of the kernel (docs/guarantees/density.md); that noise of
this D on the coordinates is enough is proved in docs/guarantees/process.md.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.accounting.receipt import prepay
from sfumato.bounds import Bounds
from sfumato.exceptions import InvalidInputError
from sfumato.functions import OnlineFunction, TaylorFeatures, release_function
from sfumato.functions.store import AnswerStore
from sfumato.guarantee import Guarantee
from sfumato.kernels import GaussianKernel, KernelExpansion
from sfumato.mechanisms import GaussianProcessMechanism
from sfumato.mechanisms.base import noise_status
from sfumato.pipeline import PUBLIC_TABLE, Promise
from sfumato.publishing import chosen_columns, finite_points
from sfumato.tables.bounds_file import TableBounds
from sfumato.tables.columns import arrow
from sfumato.tables.files import TableFile

__all__ = ["query_store", "release_to_store"]


def release_to_store(
    source: TableFile,
    bounds: TableBounds,
    promise: Promise,
    *,
    bandwidth: float,
    store: str | os.PathLike[str],
    name: str,
    columns: Sequence[str] = (),
) -> Guarantee:
    """Release ``(1/n) sum_i N(x; x_i, h^2)`` plus noise into a store, charged once.

    Parameters
    ----------
    source, bounds, promise, columns
        As in `release_table`; relation "replace_one" only, since n is used.
    bandwidth : float
        h, public, in the units of the table.
    store : path-like or str
        A SQLite file or a postgresql:// URL.
    name : str
        Name of the release in the store.

    Returns
    -------
    Guarantee
        What is promised.
    """
    if promise.relation != "replace_one":
        raise InvalidInputError("A density in a store uses the number of rows: 'replace_one' only.")
    if not 0 < bandwidth < math.inf:
        raise InvalidInputError(f"'bandwidth' must be positive and finite. Got {bandwidth}.")
    encoding = chosen_columns(bounds, columns, "density").encoding()
    domain = Bounds(lower=encoding.lower, upper=encoding.upper)
    kernel = GaussianKernel(bandwidth)
    features = TaylorFeatures(kernel, domain, encoding.n_numbers)
    rows = encoding.numbers(source.declared(bounds.types()).read(encoding.form.columns))
    scale = 1 / (len(rows) * kernel.normaliser(encoding.n_numbers))
    mechanism = GaussianProcessMechanism.calibrate(
        sensitivity=math.sqrt(2) * scale, epsilon=promise.epsilon, delta=promise.delta
    )
    mechanism.for_size(features.size)
    AnswerStore(store).require_new(name)  # before anything is charged
    receipt = prepay(
        promise.ledger, mechanism.event(), unit=promise.unit, relation=promise.relation
    )
    release_function(
        KernelExpansion(kernel, rows, np.full(len(rows), scale)),
        kernel=kernel,
        mechanism=mechanism,
        how="online",
        domain=domain,
        features=features,
        store=store,
        name=name,
        ledger=receipt,
    )
    return Guarantee(
        epsilon=promise.epsilon,
        delta=promise.delta,
        status=noise_status(),
        public=("bounds", "bandwidth", "number of rows", PUBLIC_TABLE),
        events=receipt.events,
    )


def query_store(store: str | os.PathLike[str], name: str, source: TableFile) -> Any:
    """Answer points by a release of a store; a point asked before gets the answer it got before.

    Parameters
    ----------
    store : path-like or str
        Where the release is kept.
    name : str
        Its name.
    source : TableFile
        Points, one column an axis, in the order of the release.

    Returns
    -------
    pyarrow.Table
        The points, with a column "value".
    """
    function = OnlineFunction.resume(None, store=store, name=name)
    names = list(source.columns)[: function.domain.n_features]
    table = source.read(names)
    values = function(finite_points(table, names))
    return table.append_column("value", arrow().array(values))
