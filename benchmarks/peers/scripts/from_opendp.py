"""Statistics and tables by OpenDP: `pip install 'opendp[mbi,scikit-learn]'`.

Where delta is given, rho-zCDP is asked for, the largest rho that OpenDP itself turns into
(epsilon, delta). Two rows of difference are one row replaced.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import opendp.prelude as dp
from answering import answer

dp.enable_features("contrib", "idealized-numerics")
NUMBERS = dp.vector_domain(dp.atom_domain(T=float, nan=False))
REPLACED = 2


def rho_of(epsilon: float, delta: float) -> float:
    """Return the largest rho that implies (epsilon, delta)."""
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)

    def implied(rho: float) -> float:
        mechanism = dp.m.make_gaussian(*space, scale=math.sqrt(0.5 / rho))
        profile = dp.c.make_zCDP_to_approxDP(mechanism).map(1.0)
        return float(profile.epsilon(delta))

    return float(dp.binary_search(lambda rho: implied(rho) <= epsilon, bounds=(1e-6, 1e3)))


def pca(*, epsilon: float, X: Any, n_components: Any, **_: Any) -> Any:
    """Components of rows in the unit ball about a public centre, which is zero; pure epsilon."""
    n, d = X.shape
    domain = dp.numpy.array2_domain(
        size=n, num_columns=d, T=float, norm=1.0, p=2, origin=np.zeros(d)
    )
    from opendp.extras.sklearn.decomposition import make_private_pca

    measurement = make_private_pca(
        domain, dp.symmetric_distance(), epsilon, num_components=int(n_components)
    )
    return lambda: measurement(X).Vt


def mean(*, epsilon: float, delta: float, X: Any, lower: Any, upper: Any, **_: Any) -> Any:
    """Mean of rows in the ball around the box."""
    from opendp.extras.numpy._make_np_mean import make_private_np_mean

    n, d = X.shape
    centre, radius = np.full(d, (lower + upper) / 2), float(upper - lower) / 2 * math.sqrt(d)
    domain = dp.numpy.array2_domain(size=n, num_columns=d, T=float)

    def with_scale(scale: float) -> Any:
        metric = dp.symmetric_distance()
        return make_private_np_mean(domain, metric, scale, norm=radius, p=2, origin=centre)

    measurement = dp.binary_search_chain(with_scale, REPLACED, rho_of(epsilon, delta), T=float)
    return lambda: measurement(X)


def histogram(*, epsilon: float, x: Any, edges: Any, **_: Any) -> Any:
    """Counts with Laplace noise, pure epsilon."""
    bins = (NUMBERS, dp.symmetric_distance()) >> dp.t.then_find_bin(edges[1:-1].tolist())
    counts = bins >> dp.t.then_count_by_categories(
        list(range(len(edges) - 1)), null_category=False, MO=dp.L1Distance["i32"]
    )
    measurement = dp.binary_search_chain(
        lambda scale: counts >> dp.m.then_laplace(scale), REPLACED, epsilon, T=float
    )
    rows = x.tolist()
    return lambda: measurement(rows)


def gaussian(*, draws: Any, **_: Any) -> Any:
    return _drawn(dp.m.make_gaussian(NUMBERS, dp.l2_distance(T=float), scale=4.0), int(draws))


def laplace(*, draws: Any, **_: Any) -> Any:
    return _drawn(dp.m.make_laplace(NUMBERS, dp.l1_distance(T=float), scale=1.0), int(draws))


def _drawn(measurement: Any, draws: int) -> Any:
    zeros = np.zeros(draws)

    def release() -> float:
        measurement(zeros)
        return 0.0

    return release


def aim(*, epsilon: float, delta: float, table: Any, sizes: Any) -> Any:
    """Rows with the noisy marginals of chosen pairs of columns; a row added or removed."""
    import polars as pl

    names = [f"c{number}" for number in range(len(sizes))]
    rows = pl.DataFrame({name: table[:, c].astype(np.int64) for c, name in enumerate(names)})
    keys = {name: list(range(size)) for name, size in zip(names, sizes.tolist(), strict=True)}
    rho = rho_of(epsilon, delta)

    def release() -> Any:
        context = dp.Context.compositor(
            data=rows.lazy(),
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=dp.loss_of(rho=rho),
        )
        query = context.query(rho=rho).select(*names)
        found = query.contingency_table(keys=keys, algorithm=dp.mbi.AIM(queries=2)).release()
        made = found.synthesize(len(table))
        # A value outside the public list would be null; there is none, but the model may draw it.
        return made.select(pl.col(name).fill_null(0) for name in names).to_numpy()

    return release


if __name__ == "__main__":
    tasks = {"pca": pca, "mean": mean, "histogram": histogram, "aim": aim}
    answer("opendp", tasks | {"gaussian": gaussian, "laplace": laplace})
