"""What is recorded: every public estimator with a private fit, on small data with odd records.

Written against names of `sfumato` alone, so that a change of packages does not touch it; of others
there are `sfumato.federated`, and the systems as printed, wherever `sfumato.papers` has them.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

import sfumato as sf

RELATIONS = ("replace_one", "add_or_remove_one")
Run = Callable[[Any], tuple[Any, dict[str, Any]]]


@dataclass(frozen=True)
class Case:
    """A run, to which a ledger is handed, that gives a fitted model and what it answers.

    `loose` has, by the name of a learned attribute or an answer, or for "releases" that are not
    exact sums, the largest difference between machines relative to the largest number, where it is
    not `record.ELSEWHERE`; the reason stands where the case is made. An infinite one leaves them to
    SFUMATO_GOLDEN=bits alone.
    """

    run: Run
    loose: dict[str, float] = field(default_factory=dict)
    seed: int = 0


# Data: fractions of multiples of square roots, which no version of NumPy draws otherwise ---------


def fractions(n: int, width: int) -> np.ndarray:
    roots = np.sqrt([2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 19.0][:width])
    return np.asarray(np.modf(np.arange(1, n + 1)[:, None] * roots)[0])


N = 240
CELLS = fractions(N, 8)
CODES = (CELLS[:, 0] + CELLS[:, 1] > 1).astype(int) + (CELLS[:, 0] > 0.7)
Y3 = CODES
Y2 = (CODES > 0).astype(int)
X = 0.35 * (2 * CELLS[:, :4] - 1) + 0.25 * (CODES - 1)[:, None] * [1.0, 0.5, -0.5, 0.0]
TARGET = 0.5 + 0.4 * X[:, 0] - 0.2 * X[:, 1] + 0.1 * CELLS[:, 5]
PERSONS = np.arange(N) // 4  # four rows each, of which three are used
ODD = [(3, np.nan), (50, np.inf), (77, 40.0), (101, -1e308)]
for row, value in ODD:
    X[row, row % 4] = value
TARGET[[5, 60]] = np.nan, 7.0
LABELS3 = Y3.astype(object)
LABELS3[[7, 90]] = 9, None
PLANE = CELLS[:, :2]
IMAGES, DIGITS = load_digits(n_class=3, return_X_y=True)
IMAGES, DIGITS = IMAGES[:200] / 16.0, DIGITS[:200]
PROBES = np.arange(100, 108)

BALL = {"norm": 1.0}
BOX = {"lower": -1.0, "upper": 1.0}
RANGES = {"lower": [-1.0, -1.0, -0.5, -2.0], "upper": [1.0, 1.0, 0.5, 2.0]}
BUDGET: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-5}


def table(target: str = "label") -> pd.DataFrame:
    """A table with missing cells, an unknown category, a date, truth values and an ID."""
    towns = np.array(["Ghent", "Ypres", "Bruges", "Lille"], dtype=object)[
        (4 * CELLS[:, 3]).astype(int)
    ]
    found = pd.DataFrame(
        {
            "age": np.where(CELLS[:, 2] < 0.1, np.nan, 100 * CELLS[:, 4]),
            "income": 10.0 ** (1 + 4 * CELLS[:, 5]),
            "town": towns,
            "member": CELLS[:, 6] > 0.5,
            "seen": [date(2020, 1, 1) + timedelta(days=int(700 * each)) for each in CELLS[:, 7]],
            "who": [f"p{each}" for each in PERSONS],
        }
    )
    found.loc[9, "age"], found.loc[11, "town"] = 1e6, None
    found["label"] = np.array(["low", "mid", "high"], dtype=object)[Y3]
    found["cost"] = 100 * np.nan_to_num(TARGET, nan=0.5)
    return found.drop(columns="cost" if target == "label" else "label")


COLUMNS: dict[str, Any] = {
    "age": {"lower": 0, "upper": 100, "missing": True},
    "income": {"lower": 10, "upper": 100_000, "log": True},
    "town": ["Bruges", "Ghent", "Ypres"],
    "member": bool,
    "seen": {
        "type": "date32[day]",
        "parts": ["time", "month"],
        "lower": date(2020, 1, 1),
        "upper": date(2021, 6, 30),
    },
}
TARGETS: dict[str, Any] = {"label": ["high", "low", "mid"], "cost": (0, 100)}


def table_bounds(target: str | None = "label", *, persons: bool = False) -> sf.TableBounds:
    columns = COLUMNS | ({} if target is None else {target: TARGETS[target]})
    about = {"person": "who", "person_rows": 3} if persons else {}
    return sf.TableBounds.from_dict(columns, target=target, **about)


# Runs -------------------------------------------------------------------------------------------

ANSWERS = ("predict", "predict_proba", "decision_function", "transform")


# Hulls of rows that Gaussians were fitted to: where the noise leaves two directions all but equal,
# the last bit decides which comes first, and other rows are drawn.
CHAOTIC = dict.fromkeys((*ANSWERS, "distances", "part 0"), np.inf)
# Rows and hulls are kept in singles, which a last bit can round the other way.
SINGLES = dict.fromkeys((*ANSWERS, "distances", "part 0", "rows_"), 1e-5)
# The minimiser is found up to a tolerance, on a path of its own on each machine.
MINIMISER = dict.fromkeys(("releases", "coefficients_", *ANSWERS), 1e-4)
# Rounds of labels, each from the one before: differences grow.
ROUNDS = dict.fromkeys(ANSWERS, 1e-5)


def answers_of(model: Any, rows: Any) -> dict[str, Any]:
    found = {name: getattr(model, name)(rows) for name in ANSWERS if hasattr(model, name)}
    return {k: np.stack(v) if isinstance(v, tuple) else v for k, v in found.items()}


def fitted(model: Any, X: Any, y: Any = None, ask: Any = answers_of, **options: Any) -> Run:
    """Fit with a ledger and ask about some rows."""
    rows = X.iloc[PROBES] if isinstance(X, pd.DataFrame) else X[PROBES % len(X)]

    def run(ledger: Any) -> tuple[Any, dict[str, Any]]:
        found = model.set_params(ledger=ledger).fit(X, *(() if y is None else (y,)), **options)
        return found, ask(found, rows)

    return run


def each_way(
    kind: Any,
    *,
    box: dict[str, Any] = BALL,
    labels: Any = None,
    X: np.ndarray = X,
    y: Any = None,
    target: str | None = None,
    persons: bool = True,
    tables: bool = True,
    arrays: bool = True,
    ways: tuple[str, ...] = ("average", "sum"),
    loose: dict[str, float] | None = None,
    ask: Any = answers_of,
    **settings: Any,
) -> Iterator[tuple[str, Case]]:
    """Make cases of one class: both relations, an array, a table, persons of either."""
    found = {} if labels is None else {"labels": labels}
    for relation in RELATIONS:
        words = {"relation": relation, **BUDGET, **settings}
        made: dict[str, Run] = {}
        if arrays:
            made["array"] = fitted(kind(bounds=sf.Bounds(**box, **found), **words), X, y, ask)
        if tables:
            table_words = {k: v for k, v in words.items() if k != "target_bounds"}
            made["table"] = fitted(
                kind(bounds=table_bounds(target), **table_words), table(target or "label"), ask=ask
            )
        if persons and arrays:
            for way in ways:
                of_persons = sf.Bounds(**box, **found, person_rows=3, per_person=way)
                made[f"persons, {way}"] = fitted(
                    kind(bounds=of_persons, unit="person", **words), X, y, ask, groups=PERSONS
                )
        if persons and tables:
            made["table of persons"] = fitted(
                kind(bounds=table_bounds(target, persons=True), unit="person", **table_words),
                table(target or "label"),
                ask=ask,
            )
        for name, run in made.items():
            yield f"{name}, {relation}", Case(run, loose or {})


def linear_classifier() -> Iterator[tuple[str, Case]]:
    three = {"labels": [0, 1, 2], "y": LABELS3, "target": "label"}
    yield from each_way(sf.PrivateLinearClassifier, n_steps=5, **three)
    box = sf.Bounds(**RANGES, labels=[0, 1])
    for relation in RELATIONS:
        words = {"bounds": box, "relation": relation, **BUDGET}
        yield (
            f"ranges, no PCA, {relation}",
            Case(fitted(sf.PrivateLinearClassifier(whiten=False, n_steps=5, **words), X, Y2)),
        )


def linear_regressor() -> Iterator[tuple[str, Case]]:
    number = {"box": BOX, "y": TARGET, "target": "cost", "target_bounds": (0.0, 1.0)}
    yield from each_way(sf.PrivateLinearRegressor, n_steps=5, **number)


def additive_classifier() -> Iterator[tuple[str, Case]]:
    three = {"box": BOX, "labels": [0, 1, 2], "y": LABELS3, "target": "label"}
    yield from each_way(sf.PrivateAdditiveClassifier, n_steps=4, **three)
    two = sf.Bounds(**BOX, labels=[0, 1])
    for relation in RELATIONS:
        words = {"bounds": two, "relation": relation, **BUDGET}
        for name, settings in {
            "private knots": {"knots": "private", "n_knots": 9},
            "pairs": {"interactions": True},
        }.items():
            model = sf.PrivateAdditiveClassifier(n_steps=3, **settings, **words)
            yield f"{name}, {relation}", Case(fitted(model, X, Y2))
    yield "defaults", Case(fitted(sf.PrivateAdditiveClassifier(bounds=two, **BUDGET), X, Y2))


def additive_regressor() -> Iterator[tuple[str, Case]]:
    number = {"box": BOX, "y": TARGET, "target": "cost", "target_bounds": (0.0, 1.0)}
    yield from each_way(sf.PrivateAdditiveRegressor, n_steps=4, **number)
    model = sf.PrivateAdditiveRegressor(
        knots="private", n_steps=3, target_bounds=(0.0, 1.0), bounds=sf.Bounds(**BOX), **BUDGET
    )
    yield "private knots", Case(fitted(model, X, TARGET))


def gaussian_classifier() -> Iterator[tuple[str, Case]]:
    three = {"labels": [0, 1, 2], "y": LABELS3, "target": "label"}
    yield from each_way(
        sf.PrivateGaussianClassifier, n_components=2, gaussians_per_class=1, **three
    )
    two = {"n_components": 3, "gaussians_per_class": 2}
    for relation in RELATIONS:
        words = {"relation": relation, "bounds": sf.Bounds(**RANGES, labels=[0, 1, 2]), **BUDGET}
        model = sf.PrivateGaussianClassifier(**two, **words)
        yield f"two Gaussians, {relation}", Case(fitted(model, X, LABELS3))


def pca() -> Iterator[tuple[str, Case]]:
    yield from each_way(sf.PrivatePCA, n_components=2)


def moments() -> Iterator[tuple[str, Case]]:
    yield from each_way(sf.PrivateMoments, labels=[0, 1, 2], y=LABELS3, target="label")
    for relation in RELATIONS:
        model = sf.PrivateMoments(bounds=sf.Bounds(**BALL), relation=relation, **BUDGET)
        yield f"no labels, {relation}", Case(fitted(model, X))


def kernel_classifier() -> Iterator[tuple[str, Case]]:
    words = {"n_fourier": 64, "bandwidth": 0.4, "regularization": 1.0, **BUDGET}
    for loss in ("huber", "hinge"):
        for labels, y in (([0, 1], Y2), ([0, 1, 2], LABELS3)):
            bounds = sf.Bounds(**RANGES, labels=labels)
            model = sf.PrivateKernelClassifier(loss, bounds=bounds, **words)
            yield f"{loss}, {len(labels)} labels", Case(fitted(model, X, y), MINIMISER)
    yield "table", Case(fitted(sf.PrivateKernelClassifier(bounds=table_bounds(), **words), table()))


def kernel_regressor() -> Iterator[tuple[str, Case]]:
    words = {"n_fourier": 64, "bandwidth": 0.4, "regularization": 1.0, **BUDGET}
    model = sf.PrivateKernelRegressor(target_bounds=(0.0, 1.0), bounds=sf.Bounds(**BOX), **words)
    yield "huber", Case(fitted(model, X, TARGET), MINIMISER)
    model = sf.PrivateKernelRegressor(bounds=table_bounds("cost"), **words)
    yield "table", Case(fitted(model, table("cost")), MINIMISER)


def density_answers(model: Any, rows: Any) -> dict[str, Any]:
    return {"density": model.density(rows), "samples": model.score_samples(rows)}


def density() -> Iterator[tuple[str, Case]]:
    unit = {"lower": 0.0, "upper": 1.0}
    for relation in RELATIONS:
        words = {"relation": relation, **BUDGET}
        for labels, y in ((None, None), ([0, 1, 2], LABELS3)):
            model = sf.PrivateDensity(n_cells=8, bounds=sf.Bounds(**unit, labels=labels), **words)
            yield (
                f"grid{'' if y is None else ', classes'}, {relation}",
                Case(fitted(model, PLANE, y, density_answers)),
            )
        for way in ("average", "sum"):
            model = sf.PrivateDensity(
                n_cells=8,
                unit="person",
                bounds=sf.Bounds(**unit, person_rows=3, per_person=way),
                **words,
            )
            yield (
                f"persons, {way}, {relation}",
                Case(fitted(model, PLANE, None, density_answers, groups=PERSONS)),
            )
        two = sf.TableBounds.from_dict({"age": (0, 100), "income": COLUMNS["income"]})
        yield (
            f"table, {relation}",
            Case(fitted(sf.PrivateDensity(bounds=two, **words), table(), None, density_answers)),
        )


def mean_curve() -> Iterator[tuple[str, Case]]:
    points = np.arange(8) / 7
    curves = points * (1 - points) * 4 - 0.5 + 0.5 * CELLS[:, :1]
    curves[4, 2], curves[9, 0] = np.nan, 50.0

    def ask(model: Any, _: Any) -> dict[str, Any]:
        return {"curve": model.curve(points[::2]), "std": model.noise_std(points[::2])}

    yield from each_way(
        sf.PrivateMeanCurve,
        box={"lower": -2.0, "upper": 2.0},
        X=curves,
        ask=ask,
        tables=False,
        ways=("average",),
        norm=1.0,
    )


def rows_of(made: Any) -> dict[str, Any]:
    """Return fabricated rows, an array and labels or a table, as numbers."""
    parts = made if isinstance(made, tuple) else (made,)
    return {f"part {number}": part for number, part in enumerate(parts) if part is not None}


def fabricator() -> Iterator[tuple[str, Case]]:
    def ask(model: Any, _: Any) -> dict[str, Any]:
        return rows_of(model.fabricate())

    settings = {"random_state": 0, "ask": ask}
    three = {"labels": [0, 1, 2], "y": LABELS3, "target": "label"}
    for kind, words in (
        (sf.GaussianFabricator, {"tables": False, "n_components": 2}),
        (sf.Fabricator, {"arrays": False}),
    ):
        for name, case in each_way(kind, box=BOX, **words, **three, **settings):
            yield f"{kind.__name__}, {name}", case
    for relation in RELATIONS:
        words = {"relation": relation, "bounds": sf.Bounds(norm=8.0, labels=[0, 1, 2]), **BUDGET}
        model = sf.GaussianFabricator(6, gaussians_per_class=2, random_state=0, **words)
        yield f"two Gaussians, {relation}", Case(fitted(model, IMAGES, DIGITS, ask), CHAOTIC)


def linked_tables() -> Iterator[tuple[str, Case]]:
    people = sf.TableBounds.from_dict(
        {"age": {"type": "int64", "lower": 0, "upper": 100}, "ill": ["no", "yes"]}, target="ill"
    )
    events = sf.TableBounds.from_dict(
        {"kind": ["visit", "call"], "day": {"type": "int64", "lower": 0, "upper": 365}}
    )
    linked = sf.LinkedTables(people, events, "id", 4, order="day")
    first = pd.DataFrame({"id": np.arange(120), "age": (100 * CELLS[:120, 0]).astype(int)})
    first["ill"] = np.where(CELLS[:120, 1] > 0.6, "yes", "no")
    second = pd.DataFrame({"id": (125 * CELLS[:, 2]).astype(int)})
    second["kind"] = np.where(CELLS[:, 3] > 0.5, "visit", "call")
    second["day"] = (365 * CELLS[:, 4]).astype(int)
    for relation in RELATIONS:
        model = sf.Fabricator(
            unit="person", relation=relation, bounds=linked.bounds, random_state=0, **BUDGET
        )

        def ask(model: Any, _: Any) -> dict[str, Any]:
            return rows_of(linked.split(model))

        run = fitted(model, linked.joined(first, second), None, ask)
        yield relation, Case(run)


def hull_answers(model: Any, rows: Any) -> dict[str, Any]:
    return answers_of(model, rows) | {"distances": model.distances(rows)}


def hull_classifier() -> Iterator[tuple[str, Case]]:
    for relation in RELATIONS:
        words = {"relation": relation, "random_state": 0, **BUDGET}
        small = {"hull_components": 3, "n_layers": 1, "samples_per_gaussian": 40}
        ball = sf.Bounds(norm=8.0, labels=[0, 1, 2])
        for name, settings in {
            "two Gaussians": {"gaussians_per_class": 2},
            "deep": {"n_layers": 2},
        }.items():
            model = sf.PrivateAffineHullClassifier(6, bounds=ball, **small | settings, **words)
            yield f"{name}, {relation}", Case(fitted(model, IMAGES, DIGITS, hull_answers), CHAOTIC)
        model = sf.PrivateAffineHullClassifier(4, bounds=table_bounds(), **small, **words)
        yield f"table, {relation}", Case(fitted(model, table(), None, hull_answers), CHAOTIC)
    cube = sf.Bounds(lower=0.0, upper=1.0, labels=[0, 1, 2])
    entries = sf.EntryHullClassifier(5, n_layers=1, bounds=cube, random_state=0)
    yield "entries", Case(fitted(entries, IMAGES, DIGITS, hull_answers), CHAOTIC)


def transfer() -> Iterator[tuple[str, Case]]:
    source, y_source = IMAGES[:120], DIGITS[:120]
    target, y_target = IMAGES[120:], np.where(np.arange(80) < 20, DIGITS[120:], -1)
    for relation in RELATIONS:
        words = {
            "relation": relation,
            "bounds": sf.Bounds(norm=8.0, labels=[0, 1, 2]),
            "n_components": 5,
            "target_components": 6,
            "schedule": (3, 5),
            "random_state": 0,
            **BUDGET,
        }
        for name, settings in {"public target": {}, "target alone": {"use_source": False}}.items():
            model = sf.PrivateTransferClassifier(**settings, **words)

            def run(ledger: Any, model: Any = model) -> tuple[Any, dict[str, Any]]:
                model.set_params(ledger=ledger)
                labels = model.fit_predict(source, y_source, target, y_target)
                return model, {"labels": labels, **answers_of(model, target[:8])}

            yield f"{name}, {relation}", Case(run, ROUNDS)


def images() -> Iterator[tuple[str, Case]]:
    for relation in RELATIONS:
        model = sf.PrivateImageClassifier(
            "hog",
            relation=relation,
            bounds=sf.Bounds(lower=0.0, upper=1.0, labels=[0, 1, 2]),
            **BUDGET,
        )
        yield f"HOG, {relation}", Case(fitted(model, IMAGES, DIGITS))


def search() -> Iterator[tuple[str, Case]]:
    ball = sf.Bounds(**BALL, labels=[0, 1])
    grid = {"n_steps": [1, 3], "max_gradient_norm": [0.1, 0.5]}
    for relation in RELATIONS:
        linear = sf.PrivateLinearClassifier(n_steps=2, whiten=False, relation=relation, bounds=ball)
        model = sf.PrivateSearchCV(linear, grid, mean_runs=3.0, **BUDGET)
        yield f"Poisson, {relation}", Case(fitted(model, X, Y2))


def large_margin() -> Iterator[tuple[str, Case]]:
    for relation in RELATIONS:
        words = {"relation": relation, **BUDGET}
        for name, settings in {
            "rows": {"n_components": 3},
            "unit rows": {"normalize_rows": True},
        }.items():
            model = sf.PrivateLargeMarginGaussianClassifier(
                bounds=sf.Bounds(**BALL, labels=[0, 1, 2]), **settings, **words
            )
            yield f"{name}, {relation}", Case(fitted(model, X, LABELS3))
        model = sf.PrivateLargeMarginGaussianClassifier(bounds=table_bounds(), **words)
        yield f"table, {relation}", Case(fitted(model, table()))


def scores() -> Iterator[tuple[str, Case]]:
    """Scores of a model that was fitted to public rows without noise."""
    half = slice(0, 120)
    classifier = sf.PrivateGaussianClassifier(
        2, epsilon=np.inf, bounds=sf.Bounds(**BALL, labels=[0, 1, 2])
    )
    regressor = sf.PrivateLinearRegressor(
        n_steps=5, epsilon=np.inf, target_bounds=(0.0, 1.0), bounds=sf.Bounds(**BOX)
    )
    for relation in RELATIONS:
        for name, model, y, delta in (
            ("classifier", classifier, Y3, 0.0),
            ("classifier, Gaussian noise", classifier, Y3, 1e-5),
            ("regressor", regressor, np.nan_to_num(TARGET, nan=0.5), 1e-5),
        ):

            def run(
                ledger: Any,
                model: Any = model,
                y: Any = y,
                words: Any = {"delta": delta, "relation": relation, "epsilon": 2.0},  # noqa: B006
            ) -> tuple[Any, dict[str, Any]]:
                model.fit(X[half], y[half])
                return sf.release_score(model, X[120:], y[120:], ledger=ledger, **words), {}

            yield f"{name}, {relation}", Case(run)


def statistics() -> Iterator[tuple[str, Case]]:
    table, words = pd.DataFrame({"x": X[:, 0]}), {"bounds": {"x": (0, 1)}, "epsilon": 1.0}
    for name, more in {
        "ranges": {"bins": 40, "ranges": "all"},
        "Gaussian": {"bins": 90, "ranges": [(0, i / 90) for i in range(1, 91)], "delta": 1e-5},
    }.items():

        def run(ledger: Any, more: Any = more) -> tuple[Any, dict[str, Any]]:
            found = sf.release_histogram(table, "x", ledger=ledger, **more, **words)
            return found, {"figures": np.stack([found.table[c] for c in ("count", "low", "high")])}

        yield name, Case(run)


def unprotected() -> Iterator[tuple[str, Case]]:
    """Models without a ledger: what private ones are made of."""
    plain = np.nan_to_num(sf.Bounds(**BOX).clip(X))
    kinds: dict[str, Any] = {
        "KernelAffineHull": sf.KernelAffineHull(n_components=3),
        "DeepAffineHull": sf.DeepAffineHull(n_components=3),
        "WideAffineHull": sf.WideAffineHull(n_components=3, branch_size=60, random_state=0),
        "AffineHullClassifier": sf.AffineHullClassifier(
            n_components=3, branch_size=60, random_state=0
        ),
        "MembershipMapping": sf.MembershipMapping(random_state=0),
        "MembershipAutoencoder": sf.MembershipAutoencoder(n_layers=2, random_state=0),
        "MembershipClassifier": sf.MembershipClassifier(branch_size=60, random_state=0),
        "LargeMarginGaussianClassifier": sf.LargeMarginGaussianClassifier(tol=1e-2),
        "HOGFeatures": sf.HOGFeatures(),
        "ScatteringFeatures": sf.ScatteringFeatures(n_orientations=4),
        "RandomPatchFeatures": sf.RandomPatchFeatures(n_filters=16, mirror=None, n_projected=None),
    }
    # k-means: a row between two centres goes to either.
    partition = dict.fromkeys(("distances", *ANSWERS), np.inf)
    loose = {
        "WideAffineHull": partition,
        "AffineHullClassifier": partition,
        "RandomPatchFeatures": SINGLES,
    }
    for name, model in kinds.items():

        def run(_: Any, model: Any = model, name: str = name) -> tuple[Any, dict[str, Any]]:
            rows = IMAGES if name.endswith("Features") else plain
            model.fit(rows, CODES[: len(rows)])
            found = answers_of(model, rows[PROBES])
            if hasattr(model, "distances"):
                found["distances"] = model.distances(rows[PROBES])
            return model, found

        yield name, Case(run, loose.get(name, {}))


def parties() -> Iterator[tuple[str, Case]]:
    from sfumato.federated import Federation, make_parties, simulate

    bounds = sf.Bounds(norm=8.0, labels=[0, 1, 2])
    model = sf.PrivateLinearClassifier(n_steps=3, n_components=4, bounds=bounds, **BUDGET)

    def summed(_: Any) -> tuple[Any, dict[str, Any]]:
        with tempfile.TemporaryDirectory() as folder:
            there = make_parties(IMAGES, DIGITS, folder, n_parties=3, random_state=0, bounds=bounds)
            model.fit(Federation(there, bounds=bounds, trust="noisy"))
        return model, answers_of(model, IMAGES[:8])

    yield "linear, noisy sums", Case(summed)
    hulls = sf.PrivateAffineHullClassifier(
        6,
        hull_components=3,
        n_layers=1,
        samples_per_gaussian=40,
        bounds=bounds,
        random_state=0,
        **BUDGET,
    )

    def merged(_: Any) -> tuple[Any, dict[str, Any]]:
        with tempfile.TemporaryDirectory() as folder:
            there = make_parties(IMAGES, DIGITS, folder, n_parties=3, random_state=0)
            found = simulate(there, hulls).model
        return found, hull_answers(found, IMAGES[:8])

    yield "hulls", Case(merged, CHAOTIC)


def printed(name: str) -> Any:
    """Find a system as printed, whichever paper it is filed under."""
    import sfumato.papers

    for paper in iter_modules(sfumato.papers.__path__, "sfumato.papers."):
        if hasattr(module := import_module(paper.name), name):
            return getattr(module, name)
    raise AssertionError(f"No paper has {name}.")


def papers() -> Iterator[tuple[str, Case]]:
    cube = sf.Bounds(lower=0.0, upper=1.0, labels=[0, 1, 2])
    ball = sf.Bounds(**BALL, labels=[0, 1])
    entry = {"entry_bound": 0.25, "random_state": 0, "bounds": cube, **BUDGET}

    def rows(model: Any, _: Any) -> dict[str, Any]:
        return rows_of(model.fabricate())

    def distances(model: Any, rows: Any) -> dict[str, Any]:
        return {"predict": model.predict(rows), "distances": model.distances(rows)}

    def raw(model: Any, rows: Any) -> dict[str, Any]:
        return {"raw": model.raw_density(rows)}

    yield (
        "hulls",
        Case(
            fitted(
                printed("PrintedAffineHullClassifier")(3, n_layers=1, **entry),
                IMAGES,
                DIGITS,
                distances,
            ),
            SINGLES,
        ),
    )
    yield (
        "fabricator",
        Case(fitted(printed("PrintedFabricator")(3, **entry), IMAGES, DIGITS, rows), SINGLES),
    )
    for space in ("gaussian", "sobolev"):
        model = printed("PrintedDensity")(
            0.2, space=space, bounds=sf.Bounds(lower=0.0, upper=1.0), epsilon=0.9, delta=1e-3
        )
        yield f"density, {space}", Case(fitted(model, PLANE[:, :1], None, raw))
    kernel = printed("PrintedKernelClassifier")(
        bandwidth=0.4,
        regularization=1.0,
        n_fourier=64,
        bounds=sf.Bounds(**RANGES, labels=[0, 1]),
        epsilon=0.9,
        delta=1e-3,
    )
    yield "kernel classifier", Case(fitted(kernel, X, Y2))
    large = printed("PrintedLargeMarginClassifier")(
        regularization=60.0, epsilon=2.0, bounds=sf.Bounds(**BALL, labels=[0, 1, 2])
    )
    solved = dict.fromkeys(("matrices_", *ANSWERS), 1e-7)  # to the tolerance of its solver
    yield "large margin", Case(fitted(large, X, Y3), solved, seed=4)
    yield "DPML", Case(fitted(printed("PrintedDPML")(2, bounds=ball, **BUDGET), X, Y2))

    def printed_transfer(ledger: Any) -> tuple[Any, dict[str, Any]]:
        kind = printed("MembershipTransferClassifier")
        model = kind(schedule=(3,), n_layers=1, ledger=ledger, **entry)
        model.fit(IMAGES[:120], DIGITS[:120])
        model.fit_target(IMAGES[120:], np.where(np.arange(80) < 20, DIGITS[120:], -1))
        return model, answers_of(model, IMAGES[:8])

    yield "transfer", Case(printed_transfer)


ALL = {
    "additive_classifier": additive_classifier,
    "additive_regressor": additive_regressor,
    "density": density,
    "fabricator": fabricator,
    "gaussian_classifier": gaussian_classifier,
    "hull_classifier": hull_classifier,
    "image_classifier": images,
    "kernel_classifier": kernel_classifier,
    "kernel_regressor": kernel_regressor,
    "large_margin": large_margin,
    "linear_classifier": linear_classifier,
    "linear_regressor": linear_regressor,
    "linked_tables": linked_tables,
    "mean_curve": mean_curve,
    "moments": moments,
    "papers": papers,
    "parties": parties,
    "pca": pca,
    "scores": scores,
    "search": search,
    "transfer": transfer,
    "statistics": statistics,
    "unprotected": unprotected,
}


def cases(subject: str) -> dict[str, Case]:
    """Make the cases of a subject anew: a fit keeps nothing for the next one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dict(ALL[subject]())
