"""Everyday statistics beside OpenDP and diffprivlib, all in one process; a record is replaced.

    python -m benchmarks.bench_statistics [peers] [ranges] [coverage]

peers: each figure is the root mean square error over runs, and CPU seconds of a run, on 10,000 ages
(tied) and weekly hours (moved by a public random part of an hour, so that none are tied) of Adult.
The peers know no persons, and give no error bars; ours are left out for quantiles.
ranges: the same of counts of all ranges of years, or of 500 ranges of quarters of an hour, by our
tree, by sums of our plain histogram and by OpenDP's consistent tree with the branching it proposes.
coverage: how often error bars of 95 % hold the figure of the table itself, and how often there is a
figure, in 500 groups of about 40 and of about 1,000 ages and hours.
"""

from __future__ import annotations

import itertools
import sys
import time
import types
import warnings
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import opendp.prelude as dp
import pandas as pd

from benchmarks.peers.tables import adult
from benchmarks.recording import write
from sfumato import (
    TableBounds,
    release_correlation,
    release_counts,
    release_histogram,
    release_mean,
    release_quantiles,
    release_sum,
    release_variance,
)

sys.modules["diffprivlib.models"] = types.ModuleType("diffprivlib.models")  # another scikit-learn
from diffprivlib import tools  # noqa: E402

RUNS = 400
N_GROUPS, GROUP_SIZES, EPSILONS = 500, (40, 1000), (0.5, 2.0, 8.0)
COLUMNS = {"age": (0, 120), "hours": (0, 168)}
dp.enable_features("contrib", "idealized-numerics")


def opendp_sum(x: np.ndarray, low: float, high: float, epsilon: float) -> float:
    """Return the sum of clamped numbers, the number of rows known, by OpenDP's own path."""
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=len(x))
    clamped = (domain, dp.symmetric_distance()) >> dp.t.then_clamp((float(low), float(high)))
    total = clamped >> dp.t.then_sum()
    scale = dp.binary_search(lambda s: (total >> dp.m.then_laplace(s)).map(2) <= epsilon)
    return float((total >> dp.m.then_laplace(scale))(x.tolist()))


def opendp_counts(x: np.ndarray, groups: list[str], epsilon: float) -> np.ndarray:
    """Return counts by category with OpenDP's discrete Laplace noise."""
    domain = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
    counted = domain >> dp.t.then_count_by_categories(groups, null_category=False)
    return np.array((counted >> dp.m.then_laplace(2.0 / epsilon))(x.tolist()))


def questions(x: np.ndarray, range_of: tuple[int, int], epsilon: float) -> dict[str, Any]:
    """Return truth and ways to ask, by statistic."""
    low, high = range_of
    table = pd.DataFrame({"x": x, "g": (x // 20).astype(int).astype(str)})
    groups = sorted(table["g"].unique())
    known = {"x": (low, high), "g": groups}
    ours = {"bounds": known, "epsilon": epsilon}
    theirs = {"bounds": (low, high), "epsilon": epsilon}
    first = lambda found, name: found.table[name].to_pylist()[0]  # noqa: E731
    return {
        "counts": (
            table["g"].value_counts()[groups].to_numpy(),
            lambda: release_counts(table, "g", **ours).table["count"].to_pylist()[:-1],
            {"OpenDP": lambda: opendp_counts(table["g"].to_numpy(), groups, epsilon)},
        ),
        "sum": (
            x.sum(),
            lambda: first(release_sum(table, "x", **ours), "sum"),
            {
                "OpenDP": lambda: opendp_sum(x, low, high, epsilon),
                "diffprivlib": lambda: tools.sum(x, **theirs),
            },
        ),
        "mean": (
            x.mean(),
            lambda: first(release_mean(table, "x", **ours), "mean"),
            {
                "OpenDP": lambda: opendp_sum(x, low, high, epsilon) / len(x),
                "diffprivlib": lambda: tools.mean(x, **theirs),
            },
        ),
        "variance": (
            x.var(),
            lambda: first(release_variance(table, "x", **ours), "variance"),
            {"diffprivlib": lambda: tools.var(x, **theirs)},
        ),
        "median": (
            np.quantile(x, 0.5, method="inverted_cdf"),
            lambda: first(release_quantiles(table, "x", error_bars=False, **ours), "quantile"),
            {"diffprivlib": lambda: tools.quantile(x, 0.5, **theirs)},
        ),
    }


def figures(ask: Callable[[], Any], truth: Any, runs: int = RUNS) -> dict[str, Any]:
    """Return error and CPU seconds of a run."""
    start = time.process_time()
    try:
        found = [np.asarray(ask(), dtype=float) - truth for _ in range(runs)]
    except RuntimeError as error:  # diffprivlib's quantile, of tied numbers
        return {"fails": str(error).partition(".")[0]}
    seconds = (time.process_time() - start) / runs
    return {"error": float(np.sqrt(np.mean(np.square(found)))), "seconds": seconds}


def peers() -> None:
    """Measure all beside peers and write the JSON."""
    people, rows = adult("data"), []
    for column, range_of in COLUMNS.items():
        x = numbers_of(people, column)
        for epsilon in (0.1, 1.0):
            for statistic, (truth, ask, others) in questions(x, range_of, epsilon).items():
                found = {"Sfumato": figures(ask, truth)}
                found |= {peer: figures(their, truth) for peer, their in others.items()}
                rows.append({"column": column, "epsilon": epsilon, "statistic": statistic, **found})
    write("statistics", rows, seed=None, runs=RUNS)


def opendp_tree(counts: np.ndarray, epsilon: float) -> np.ndarray:
    """Return counts of bins by OpenDP's tree with Laplace noise, made consistent."""
    domain = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    fan = dp.t.choose_branching_factor(10_000)
    tree = dp.t.make_b_ary_tree(*domain, leaf_count=len(counts), branching_factor=fan)
    noisy = tree >> dp.m.then_laplace(tree.map(2) / epsilon)
    return np.array(dp.t.make_consistent_b_ary_tree(fan)(noisy(counts.tolist())))


def ranges() -> None:
    """Measure counts of ranges beside peers and write the JSON."""
    people, rows, rng = adult("data"), [], np.random.default_rng(0)
    for (column, range_of), n_bins in zip(COLUMNS.items(), (120, 672), strict=True):
        x = numbers_of(people, column)
        edges = np.linspace(*range_of, n_bins + 1)
        starts, stops = np.array(list(itertools.combinations(range(n_bins + 1), 2))).T
        if n_bins > 500:
            some = rng.choice(len(starts), 500, replace=False)
            starts, stops = starts[some], stops[some]
        exact = np.histogram(np.clip(x, *range_of), edges)[0]
        asked = list(zip(edges[starts], edges[stops], strict=True))

        def of(counts: Any, starts: Any = starts, stops: Any = stops) -> np.ndarray:
            below = np.append(0, np.cumsum(counts))
            return np.asarray(below[stops] - below[starts])

        table, plain = pd.DataFrame({"x": x}), {"bins": edges.tolist()}
        for epsilon in (0.1, 1.0):
            known = {"bounds": {"x": range_of}, "epsilon": epsilon}

            def ask(table: Any = table, known: Any = known, **more: Any) -> np.ndarray:
                found = release_histogram(table, "x", **known, **more)
                return np.asarray(found.table["count"])

            ways: dict[str, Callable[[], Any]] = {
                "Sfumato": partial(ask, ranges=asked),
                "Sfumato, delta 1e-6": partial(ask, ranges=asked, delta=1e-6),
                "sums of bins": lambda ask=ask, of=of, plain=plain: of(ask(**plain)[:-1]),
                "OpenDP": lambda of=of, exact=exact, e=epsilon: of(opendp_tree(exact, e)),
            }
            found = {name: figures(way, of(exact), 60) for name, way in ways.items()}
            rows.append({"column": column, "epsilon": epsilon, "bins": n_bins, **found})
    write("statistics_ranges", rows, seed=0, runs=60)


def numbers_of(people: pd.DataFrame, column: str) -> np.ndarray:
    """Return 10,000 numbers of a column, hours moved by a public random part of an hour."""
    name = next(each for each in people.columns if column in each.lower())
    x = people[name].to_numpy(dtype=float)[:10_000]
    return x + np.random.default_rng(0).uniform(0, 1, len(x)) if column == "hours" else x


def coverage() -> None:
    """Measure how often error bars hold, in small and large groups of records or persons."""
    people = adult("data")
    drawn = pd.DataFrame({column: numbers_of(people, column) for column in COLUMNS})
    rows = [each for size in GROUP_SIZES for each in covered(drawn, size)]
    write("statistics_coverage", rows, seed=1, runs=N_GROUPS)


def covered(drawn: pd.DataFrame, size: int) -> list[dict[str, Any]]:
    """Return how often error bars hold in groups of about so many rows, two of each person."""
    rng, rows = np.random.default_rng(1), []
    table = drawn.iloc[np.arange(size * N_GROUPS) % len(drawn)].reset_index(drop=True)
    table = table.assign(g=rng.integers(0, N_GROUPS, len(table)), id=table.index // 2)
    table["g"] = table.groupby("id")["g"].transform("first")
    known = {**COLUMNS, "g": {"type": "int64", "lower": 0, "upper": N_GROUPS - 1}}
    parts = [part for _, part in table.groupby("g")]
    asked: dict[str, tuple[Callable[..., Any], Callable[[pd.DataFrame], float]]] = {
        "count": (release_counts, len),
        "sum": (partial(release_sum, column="age"), lambda t: t["age"].sum()),
        "mean": (partial(release_mean, column="age"), lambda t: t["age"].mean()),
        "variance": (partial(release_variance, column="age"), lambda t: t["age"].var(ddof=0)),
        "quantile": (partial(release_quantiles, column="age"), median),
        "correlation": (
            partial(release_correlation, columns=list(COLUMNS)),
            lambda t: t["age"].corr(t["hours"]),
        ),
    }
    for name, (ask, truth) in asked.items():
        exact = np.array([truth(part) for part in parts])
        for relation, unit, epsilon in product(
            ("replace_one", "add_or_remove_one"), ("record", "person"), EPSILONS
        ):
            person = {"person": "id", "person_rows": 2} if unit == "person" else {}
            bounds = TableBounds.from_dict(known, **person)
            options = {"bounds": bounds, "epsilon": epsilon, "relation": relation}
            found = ask(table, by="g", bins=N_GROUPS, **options).to_pandas()[:N_GROUPS]
            times = 2 if person and name in ("count", "sum") else 1  # each person counts once
            inside = (found["low"] <= exact / times + 1e-9) & (
                exact / times - 1e-9 <= found["high"]
            )
            about = {"statistic": name, "relation": relation, "unit": unit, "epsilon": epsilon}
            about["rows"] = size
            there = float(found[name].notna().mean())
            rows.append(about | {"coverage": float(inside.mean()), "figures": there})
    return rows


def median(table: pd.DataFrame) -> float:
    """Return the lower median of ages."""
    return float(np.quantile(table["age"], 0.5, method="inverted_cdf"))


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    for part in sys.argv[1:] or ("peers", "ranges", "coverage"):
        {"peers": peers, "ranges": ranges, "coverage": coverage}[part]()
