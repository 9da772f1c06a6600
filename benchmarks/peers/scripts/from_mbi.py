"""MST (McKenna et al. 2021) on the inference of mbi: its repository's recipe, `pip install mbi`.

Each column alone, a spanning tree of pairs by the exponential mechanism, and these pairs, a third
of rho-zCDP each. Columns are categories that are public; rare ones are joined by released counts.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
from answering import answer
from mbi import Dataset, Domain, LinearMeasurement, estimation


def rho_of(epsilon: float, delta: float) -> float:
    """Return the largest rho whose zCDP implies (epsilon, delta) (Canonne et al. 2020)."""
    a = 1 + np.geomspace(1e-2, 1e4, 4000)
    low, high = 0.0, epsilon
    for _ in range(60):
        rho = (low + high) / 2
        log_delta = (a - 1) * (a * rho - epsilon) + a * np.log1p(-1 / a) - np.log(a - 1)
        low, high = (rho, high) if log_delta.min() <= math.log(delta) else (low, rho)
    return low


def mst(*, epsilon: float, delta: float, table: Any, sizes: Any) -> Any:
    rho, rng, d = rho_of(epsilon, delta), np.random.default_rng(), table.shape[1]
    names = [f"c{k}" for k in range(d)]

    def measured(data: Any, cliques: list[Any]) -> list[Any]:
        sigma = math.sqrt(3 * len(cliques) / (2 * rho))
        counts = [np.asarray(data.project(c).datavector()) for c in cliques]
        noisy = [each + rng.normal(0, sigma, each.size) for each in counts]
        return [LinearMeasurement(y, c, sigma) for y, c in zip(noisy, cliques, strict=True)]

    def release() -> Any:
        domain = Domain(names, tuple(map(int, sizes)))
        alone = measured(Dataset(pd.DataFrame(table, columns=names), domain), [(n,) for n in names])
        joined, kept, small = np.empty_like(table), [], []
        for k, each in enumerate(alone):  # cells that stand out, and one of all others
            noisy = np.asarray(each.noisy_measurement)
            out = np.flatnonzero(noisy >= 3 * each.stddev)
            place = np.full(noisy.size, len(out))
            place[out] = np.arange(len(out))
            rest = np.setdiff1d(np.arange(noisy.size), out)
            joined[:, k] = place[table[:, k]]
            kept.append((out, rest))
            y = np.append(noisy[out], [noisy[rest].sum()] if len(rest) else [])
            small.append(LinearMeasurement(y, (names[k],), each.stddev))
        domain = Domain(names, tuple(m.noisy_measurement.size for m in small))
        data = Dataset(pd.DataFrame(joined, columns=names), domain)
        first = estimation.mirror_descent(domain, small, iters=1000)
        pairs, tree = list(itertools.combinations(names, 2)), nx.Graph()
        away = {
            p: float(np.abs(data.project(p).datavector() - first.project(p).datavector()).sum())
            for p in pairs
        }
        tree.add_nodes_from(names)
        each = math.sqrt(8 * rho / 3 / (d - 1))
        for _ in range(d - 1):
            free = [p for p in pairs if not nx.has_path(tree, *p)]
            gumbel = rng.gumbel(size=len(free))
            scores = each / 2 * np.array([away[p] for p in free]) + gumbel
            tree.add_edge(*free[int(np.argmax(scores))])
        chosen = [tuple(sorted(e, key=names.index)) for e in tree.edges]
        found = estimation.mirror_descent(domain, small + measured(data, chosen), iters=2000)
        made = found.synthetic_data(len(table)).df[names].to_numpy()
        result = np.empty_like(made)
        for k, (out, rest) in enumerate(kept):
            drawn = rng.choice(rest, len(made)) if len(rest) else np.zeros(len(made), int)
            is_out = made[:, k] < len(out)
            result[:, k] = np.where(is_out, np.append(out, 0)[made[:, k]], drawn)
        return result

    return release


if __name__ == "__main__":
    answer("mbi", {"mst": mst})
