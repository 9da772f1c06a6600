"""Tables by dpmm: AIM and PrivBayes on one engine: `pip install dpmm`.

Columns are categories that are public, so that nothing is spent on bins. Noise is NumPy's, at the
scale that dpmm asks for: one draw after the other by OpenDP takes longer than all the rest, and
utility is the same. All have (epsilon, delta); one process.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pandas as pd
from answering import answer

ROUNDS = 48  # of AIM, where four for each column are more: so that it ends within minutes


def _noise() -> None:
    """Put NumPy's noise in place of `dpmm.models.base.utils`."""
    module = types.ModuleType("dpmm.models.base.utils")
    rng = np.random.default_rng()
    module.gaussian_noise = lambda sigma, size=None: rng.normal(0.0, sigma, size)  # type: ignore[attr-defined]
    module.laplace_noise = lambda scale, size=None: rng.laplace(0.0, scale, size)  # type: ignore[attr-defined]
    sys.modules["dpmm.models.base.utils"] = module


_noise()
from dpmm.models.aim import AIMGM  # noqa: E402
from dpmm.models.priv_bayes import PrivBayesGM  # noqa: E402


def aim(**asked: Any) -> Any:
    """AIM on pairs of columns, with fewer rounds than the 16 for each column of its paper."""
    n_columns = asked["table"].shape[1]
    return synthesized(AIMGM, {"rounds": min(4 * n_columns, ROUNDS), "n_iters": 250}, **asked)


def privbayes(**asked: Any) -> Any:
    """PrivBayes with networks of at most two parents, fitted as the others are."""
    return synthesized(PrivBayesGM, {"degree": 2}, **asked)


def synthesized(
    kind: Any, options: dict[str, Any], *, epsilon: float, delta: float, table: Any, sizes: Any
) -> Any:
    columns = [f"c{number}" for number in range(table.shape[1])]
    rows = pd.DataFrame(table, columns=columns)
    domain = dict(zip(columns, map(int, sizes), strict=True))

    def release() -> Any:
        model = kind(
            epsilon=epsilon, delta=delta, domain=domain, compress=False, n_jobs=1, **options
        )
        model.set_domain(domain)
        model.set_random_state(np.random.RandomState())
        model.fit(rows)
        return model.generate(n_records=len(rows))[columns].to_numpy().astype(int)

    return release


if __name__ == "__main__":
    answer("dpmm", {"aim": aim, "privbayes": privbayes})
