"""Every map of rows: a row gives the same bits alone, at any place and in any company.

Feature maps of kernel spaces are no such maps: the noise of their releases pays for their rounding.
"""

from __future__ import annotations

import inspect
import math
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import sfumato
from sfumato import (
    HOGFeatures,
    RandomPatchFeatures,
    RandomProcessFeatures,
    ScatteringFeatures,
    TableBounds,
    TableEncoder,
)
from sfumato.models.additive_rows import (
    BIN_EDGES,
    AdditiveScores,
    CellCodes,
    HatRows,
    PairRows,
    PublicColumns,
    ScoreAndTarget,
    ScoreBins,
    Sides,
    WhiteRows,
)
from sfumato.models.curves import SmoothedCurves
from sfumato.models.features import GaussianKernel, KnotFeatures
from sfumato.models.image_features import ImageFeatures
from sfumato.models.linear import WithTarget
from sfumato.models.smoothing import Cells
from sfumato.models.statistics import (
    Axis,
    GroupedRows,
    _count_and_value,
    _place,
    _place_around,
    _polynomials,
    _share_of_largest,
    _square,
)
from sfumato.sums import ArrayRecords
from sfumato.sums.gradients import GradientSum, SoftmaxLoss
from sfumato.sums.grid import FINE_BITS, ROW_BITS, are_inside, revealed, truncate_to_grid
from sfumato.sums.maps import (
    BesideTarget,
    Centred,
    Clipped,
    IntoUnitBall,
    IntoUnitCube,
    LinearRows,
    Projected,
    exact_product,
    exact_projection,
)
from sfumato.sums.statistics import CountTables, Parts
from sfumato.synthetic.cells import CellLookup, CellPlaces, TableCells, public_columns
from sfumato.tables.bounds import Bounds

ROWS, WIDTH, HOSTILE = 23, 21, 3e7
Case = tuple[Callable[[Any], Any], np.ndarray]  # of a map and rows that it may be given
BOX = Bounds(lower=[-1.0, 0.0, -5.0] * 7, upper=[1.0, 10.0, 1 / 3] * 7)
TABLE = TableBounds.from_dict(
    {
        "age": {"lower": 0, "upper": 100, "missing": True},
        "town": ["Ghent", "Ypres", "Mons"],
        "rent": {"lower": 0.0, "upper": 3.0},
        "rooms": {"lower": 0, "upper": 9, "type": "int64"},
    }
)


def raw_rows(rng: np.random.Generator, width: int = WIDTH) -> np.ndarray:
    """Rows as they come: of every magnitude, with what is missing or not a number."""
    rows = rng.normal(size=(ROWS, width)) * 10.0 ** rng.integers(-3, 2, size=(ROWS, 1))
    rows[3, 0], rows[4, 0], rows[5, -1], rows[6] = np.nan, np.inf, 1e300, 0.0
    return rows


def ball_rows(rng: np.random.Generator, width: int = WIDTH) -> np.ndarray:
    rows = rng.normal(size=(ROWS, width)) * 10.0 ** rng.integers(-3, 2, size=(ROWS, 1))
    return truncate_to_grid(Bounds(norm=1.0).clip(rows), FINE_BITS)


def bases(rng: np.random.Generator) -> Iterator[np.ndarray]:
    for n_kept in (1, 3, 8):
        basis = np.linalg.qr(rng.normal(size=(WIDTH, n_kept)))[0]
        yield basis
        yield basis * HOSTILE
        yield basis * 10.0 ** rng.integers(-9, 9, size=(WIDTH, n_kept))


def hat_rows(n_columns: int = 4) -> HatRows:
    columns = PublicColumns(
        tuple("abcdefghij"[:n_columns]),
        (0.0,) * n_columns,
        (1.0,) * (n_columns - 1) + (3.0,),
        (None,) * (n_columns - 1) + (("x", "y", "z"),),
    )
    return HatRows(columns, np.tile([0.0, 0.1, 1 / 3, 0.7, 1.0], (n_columns - 1, 1)))


def cells(rng: np.random.Generator, n_columns: int = 4) -> np.ndarray:
    found = rng.uniform(-0.2, 1.2, size=(ROWS, n_columns))
    found[:, -1] = rng.integers(-1, 4, size=ROWS)
    found[2, 0], found[7] = np.nan, np.inf
    return found


def pair_rows(rng: np.random.Generator) -> Iterator[PairRows]:
    hats = hat_rows()
    pairs = np.array([[0, 1], [2, 3]])
    yield PairRows(hats, truncate_to_grid(rng.uniform(-1, 1, hats.width), ROW_BITS), pairs)
    yield PairRows(hats, rng.uniform(-1, 1, hats.width) * HOSTILE, pairs)


def white_rows(rng: np.random.Generator) -> Iterator[Case]:
    for rows in pair_rows(rng):
        for size in (0.9, HOSTILE):
            basis = rng.normal(size=(rows.width, rows.width)) * size
            white = LinearRows(rows.width, True, basis, constant=0.25, radius=0.3)
            code = CellCodes(rows, 40, keeps_target=True)
            first, last = (
                replace(code, rows=replace(rows, pairs=rows.pairs[:0])),
                WhiteRows(code, white, 19),
            )

            def made(
                part: np.ndarray, first: Any = first, code: Any = code, last: Any = last
            ) -> Any:
                return last(code(first(part))).codes

            yield made, cells(rng, 5)


def all_scores(rng: np.random.Generator, n_scores: int) -> Iterator[AdditiveScores]:
    """Random weights, and those that put the scores of a record on the edge of a bin."""
    for rows in pair_rows(rng):
        for size in (1.0, HOSTILE, 1e60):
            coef = rng.normal(size=(n_scores, rows.width)) * size
            level = rng.normal(size=n_scores) * size
            scores = AdditiveScores(rows, coef, level)
            yield scores
            level = BIN_EDGES[7] - (scores(np.full((1, 4), 0.4)) - level)[0]
            yield AdditiveScores(rows, coef, level)


def scores_beside(rng: np.random.Generator) -> Iterator[tuple[AdditiveScores, np.ndarray]]:
    for scores in all_scores(rng, 1):
        together = np.column_stack([cells(rng), rng.uniform(-0.2, 1.2, ROWS)])
        together[5, -1] = np.nan
        yield scores, together


def image_cases(features: ImageFeatures) -> Callable[[np.random.Generator], Iterator[Case]]:
    def of(rng: np.random.Generator) -> Iterator[Case]:
        images = rng.uniform(size=(4, 64))
        images[1, 0], images[2] = np.nan, 1e30
        yield features.fit(images).transform, images

    return of


def linear_rows(rng: np.random.Generator) -> Iterator[Case]:
    yield LinearRows(WIDTH, True), ball_rows(rng)
    for basis in bases(rng):
        yield LinearRows(WIDTH, True, basis, unit_length=True), ball_rows(rng)
        yield LinearRows(WIDTH, False, basis, radius=1e-3, constant=0.25), ball_rows(rng)


def beside(rng: np.random.Generator) -> Iterator[Case]:
    together = np.column_stack([ball_rows(rng), raw_rows(rng, 1)])
    for basis in bases(rng):
        yield BesideTarget(Projected(np.full(WIDTH, 0.1), basis, 0.3), True, 0.1, 1e-5), together
    yield BesideTarget(LinearRows(WIDTH, True), False), ball_rows(rng)


def sides(rng: np.random.Generator) -> Iterator[Case]:
    for rows in pair_rows(rng):
        together = np.column_stack([rows.hats(cells(rng)), raw_rows(rng, 1)])
        yield Sides(rows.hats, rows.orders, (0, 2, 3), has_target=True), together


def table_cells(rng: np.random.Generator) -> Iterator[Case]:
    columns = public_columns(TABLE)
    cuts = np.full((sum(each.is_cut for each in columns), 3), [1.0, 900.0, 2000.0])
    rows = rng.uniform(-0.2, 1.2, size=(ROWS, 4))
    rows[:, 1] = rng.integers(0, 3, size=ROWS)
    rows[4, 0] = np.nan
    yield TableCells.of(columns, cuts), rows


def cell_places(rng: np.random.Generator) -> Iterator[Case]:
    yield CellPlaces(public_columns(TABLE)), next(table_cells(rng))[1]


def grouped_rows(rng: np.random.Generator) -> Iterator[Case]:
    axis, number = Axis("a", ("x", "y", None)), ((-1.0, 0.7),)
    rows = np.column_stack([rng.integers(0, 2, ROWS), rng.uniform(-0.2, 1.2, ROWS)])
    rows[2, 0] = rows[3, 1] = np.nan
    for n_numbers, numbers in (
        (1, partial(_share_of_largest, largest=1.0)),
        (2, _count_and_value),
        (2, partial(_polynomials, degree=1)),
        (3, partial(_polynomials, degree=2)),
        (1, partial(_square, centre=0.3)),
        (1, partial(_place, n_cells=9)),
        (1, partial(_place_around, middle=np.full((3, 1), 0.1), edges=np.array([-0.1, 0.3]))),
    ):
        yield GroupedRows((axis,), number, numbers, n_numbers), rows
    bins = Axis("b", (*range(40), None), tuple(np.linspace(0.0, 1.0, 41).tolist()))
    yield GroupedRows((axis, bins)), rows


def curves(rng: np.random.Generator) -> Iterator[Case]:
    points = np.linspace(0.0, 1.0, WIDTH)
    features = KnotFeatures(GaussianKernel(0.3), points)
    for smoothing in (1.0, 1e-7):
        yield (
            SmoothedCurves(features, np.zeros(WIDTH), np.ones(WIDTH), smoothing, 1e-3),
            raw_rows(rng),
        )


def parts(rng: np.random.Generator) -> Iterator[Case]:
    codes = rng.integers(0, 2, ROWS)
    for size in (1.0, HOSTILE):
        cut_at = Parts(rng.normal(size=(2, WIDTH)), rng.normal(size=(2, WIDTH, 2)) * size)
        together = np.column_stack([ball_rows(rng), codes])

        def of(rows: np.ndarray, cut_at: Parts = cut_at) -> np.ndarray:
            return cut_at.of(rows[:, :-1], rows[:, -1].astype(np.intp))

        yield of, together


def slopes(rng: np.random.Generator) -> Iterator[Case]:
    """What gradients make of a row's scores; a column per slope."""
    for n_classes, size in ((2, 1), (3, HOSTILE)):
        loss = SoftmaxLoss(n_classes)
        statistic = GradientSum(loss, 0.3, rng.normal(size=(loss.n_scores, WIDTH)) * size)

        def of(rows: np.ndarray, statistic: GradientSum = statistic) -> np.ndarray:
            scores = rows @ statistic._exact_weights.T
            return statistic._slopes(scores, np.ones(len(rows), dtype=np.intp))

        yield of, truncate_to_grid(ball_rows(rng), ROW_BITS)


CASES: dict[Any, Callable[[np.random.Generator], Iterator[Case]]] = {
    Clipped: lambda rng: ((Clipped(each, WIDTH), raw_rows(rng)) for each in (BOX, Bounds(norm=1))),
    IntoUnitBall: lambda rng: (
        (IntoUnitBall(each, WIDTH), raw_rows(rng)) for each in (BOX, Bounds(norm=1e-5))
    ),
    IntoUnitCube: lambda rng: (
        (IntoUnitCube(each, WIDTH), raw_rows(rng)) for each in (BOX, Bounds(norm=7.0))
    ),
    TableEncoder: lambda rng: [(TableEncoder(BOX).fit(raw_rows(rng)).transform, raw_rows(rng))],
    Centred: lambda rng: (
        (Centred(rng.normal(size=WIDTH) * size, 1 / size), ball_rows(rng))
        for size in (0.3, HOSTILE)
    ),
    Projected: lambda rng: (
        (Projected(np.full(WIDTH, 0.1), basis, 1e-3), ball_rows(rng)) for basis in bases(rng)
    ),
    LinearRows: linear_rows,
    BesideTarget: beside,
    PublicColumns: lambda rng: [(hat_rows().columns, cells(rng))],
    HatRows: lambda rng: [(hat_rows(), cells(rng))],
    PairRows: lambda rng: ((rows, cells(rng)) for rows in pair_rows(rng)),
    Sides: sides,
    CellCodes: white_rows,
    WhiteRows: white_rows,
    AdditiveScores: lambda rng: ((s, cells(rng)) for k in (1, 3) for s in all_scores(rng, k)),
    ScoreAndTarget: lambda rng: (
        (ScoreAndTarget(s, 0.1, 1e-6), rows) for s, rows in scores_beside(rng)
    ),
    ScoreBins: lambda rng: (
        (ScoreBins(s), cells(rng)) for k in (1, 3, 11) for s in all_scores(rng, k)
    ),
    WithTarget: lambda rng: [
        (WithTarget(IntoUnitBall(BOX, WIDTH)), np.hstack([raw_rows(rng), raw_rows(rng, 1)]))
    ],
    CellLookup: lambda rng: [
        (
            CellLookup((0, 2, 0), ((0.5, -1.0, 2.0), (0.0, 1.0), (3.0,)), radius),
            rng.integers(-1, 5, (ROWS, 3)) * 1.0,
        )
        for radius in (None, 0.7)
    ],
    CellPlaces: cell_places,
    TableCells: table_cells,
    Cells: lambda rng: (
        (Cells((-1.0, 0.0), (1.0, 1e-7), (9, 64), each), raw_rows(rng, 2)) for each in (True, False)
    ),
    GroupedRows: grouped_rows,
    SmoothedCurves: curves,
    Parts: parts,
    GradientSum: slopes,
    HOGFeatures: image_cases(HOGFeatures()),
    ScatteringFeatures: image_cases(ScatteringFeatures(n_orientations=4)),
    RandomPatchFeatures: image_cases(RandomPatchFeatures(n_filters=16, n_projected=None)),
    RandomProcessFeatures: image_cases(RandomProcessFeatures()),
}
MORE = {TableEncoder, Parts, GradientSum}  # which are no maps of blocks, but treat a row alone


def classes_of_the_library() -> Iterator[type]:
    for module in pkgutil.walk_packages(sfumato.__path__, "sfumato."):
        if "federated.flower" in module.name or module.name.endswith("__main__"):
            continue
        found = import_module(module.name)
        yield from (
            each
            for each in vars(found).values()
            if inspect.isclass(each) and each.__module__ == module.name
        )


def is_row_map(kind: type) -> bool:
    """Whether it is called with rows, or gives features of images."""
    if issubclass(kind, ImageFeatures):
        return not inspect.isabstract(kind)
    called = vars(kind).get("__call__")
    if called is None or getattr(kind, "_is_protocol", False):
        return False
    names = list(inspect.signature(called).parameters)
    return names[1:2] in (["rows"], ["cells"])


def test_every_row_map_is_listed() -> None:
    found = {kind for kind in classes_of_the_library() if is_row_map(kind)}
    assert found == set(CASES) - MORE


@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.__name__)
def test_a_row_gives_the_same_bits_in_any_company(kind: type, rng: np.random.Generator) -> None:
    is_dear = issubclass(kind, ImageFeatures)
    for row_map, rows in CASES[kind](rng):
        with np.errstate(all="ignore"):
            alone = [row_map(rows[i : i + 1]).tobytes() for i in range(len(rows))]
            for n_rows in (3, 17) if is_dear else (2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 64, 101):
                places = rng.integers(0, len(rows), n_rows)
                for order in "C" if is_dear else "CF":
                    together = row_map(np.asarray(rows[places], order=order))
                    assert len(together) == n_rows
                    assert [row.tobytes() for row in together] == [alone[i] for i in places]


@pytest.mark.parametrize("kind", [IntoUnitBall, Centred, Projected, SmoothedCurves, WithTarget])
def test_maps_that_say_so_lead_into_the_ball(kind: Any, rng: np.random.Generator) -> None:
    """From any row, also with parameters that no honest fit has: sums do not look again."""
    assert getattr(kind, "ends_in_ball", False) is (kind is not WithTarget)
    cases = [(row_map, rows) for row_map, rows in CASES[kind](rng)]
    if kind in (Centred, Projected):
        odd = [np.nan, np.inf, 1e308, 5e-324]
        (row_map, rows), *_ = cases
        cases += [(replace(row_map, radius=each), rows) for each in (*odd, 0.0, -1.0)]
        cases += [(replace(row_map, mean=np.full_like(row_map.mean, each)), rows) for each in odd]
    for row_map, rows in cases:
        far = [np.full((1, rows.shape[1]), each) for each in (np.nan, np.inf, -1e308, 5e-324, 3.0)]
        far += [np.where(np.arange(rows.shape[1]) == 0, each, rows[:1]) for each in (np.nan, 1e200)]
        with np.errstate(all="ignore"):
            assert are_inside(row_map(np.vstack([rows, *far])), row_map.width).all()


def test_hostile_products_are_exact_before_they_are_cut(rng: np.random.Generator) -> None:
    """Maps cut to a grid what they project, which would hide a last bit from the test above."""
    rows = ball_rows(rng)
    for basis in bases(rng):
        alone = np.vstack([exact_projection(rows[i : i + 1], basis) for i in range(ROWS)])
        for n_rows in range(2, ROWS):
            assert np.array_equal(exact_projection(rows[:n_rows], basis), alone[:n_rows])
    for pairs in pair_rows(rng):
        raw = pairs.hats.raw(cells(rng))
        places = [pairs.hats.orders_of(raw[i : i + 1], pairs.orders) for i in range(ROWS)]
        for n_rows in range(2, ROWS):
            together = pairs.hats.orders_of(raw[:n_rows], pairs.orders)
            assert np.array_equal(together, np.vstack(places[:n_rows]))


def test_a_product_that_rounds_differs_in_company(rng: np.random.Generator) -> None:
    """The control: a plain product of the same rows and weights is seen by the test above."""
    rows = hat_rows().raw(cells(rng))
    weights = rng.normal(size=(1, rows.shape[1])) * HOSTILE
    alone = np.vstack([rows[i : i + 1] @ weights.T for i in range(ROWS)])
    assert not np.array_equal(alone, rows @ weights.T)
    exact = exact_product(rows, weights, 2.0)
    np.testing.assert_allclose(exact, alone, rtol=1e-9, atol=HOSTILE * 1e-10)


@pytest.mark.parametrize("n_scores", [1, 3])
def test_removing_one_of_eight_equal_records_moves_no_other(
    n_scores: int, rng: np.random.Generator
) -> None:
    """The attack: scores of equal records on the edge of a bin, counted with one of them less."""
    n_bins = len(BIN_EDGES) + 1
    table = CountTables((n_bins, 3), ((0, 1),), 3)
    if n_scores == 1:
        table = CountTables((n_bins,), ((0,),), 2)
    for scores in all_scores(rng, n_scores):
        for cell in (0.4, rng.uniform()):
            rows = np.full((8, 4), cell)
            counts, fewer = (
                revealed(
                    ArrayRecords(part, relation="add_or_remove_one")
                    .mapped(ScoreBins(scores))
                    ._sum(table)
                )
                for part in (rows, rows[1:])
            )
            assert np.abs(counts - fewer).sum() == 1


def test_a_product_is_right_to_forty_bits(rng: np.random.Generator) -> None:
    rows = truncate_to_grid(rng.uniform(size=(50, 30)), FINE_BITS)
    for size in (1e-50, 1.0, 1e30):
        weights = rng.normal(size=(4, 30)) * size
        exact = np.array(
            [[math.fsum(map(float, row * weight)) for weight in weights] for row in rows]
        )
        found = exact_product(rows, weights, math.sqrt(30))
        assert np.abs(found - exact).max() <= 2.0**-40 * np.linalg.norm(weights, axis=1).max()


def test_maps_are_the_formulas_that_they_state(rng: np.random.Generator) -> None:
    """By plain products of doubles; grids and hairs are far below the tolerance."""
    rows = Bounds(norm=1.0).clip(rng.normal(size=(40, 5)) * 0.3)
    basis, mean = np.linalg.qr(rng.normal(size=(5, 3)))[0], np.full(5, 0.05)

    def shortened(rows: np.ndarray, radius: float) -> np.ndarray:
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), radius)

    def same(row_map: Any, rows: np.ndarray, expected: np.ndarray) -> None:
        assert row_map.width == expected.shape[1]
        np.testing.assert_allclose(row_map(rows), expected, atol=2.0**-16)

    ones = np.ones((len(rows), 1))
    same(Centred(mean, 0.4), rows, shortened(rows - mean, 0.4))
    same(Projected(mean, basis, 0.4), rows, shortened((rows - mean) @ basis, 0.4))
    same(LinearRows(5, True), rows, np.hstack([rows, ones]) / math.sqrt(2))
    half = LinearRows(5, True, constant=0.5)
    same(half, rows, np.hstack([rows, ones / 2]) / math.sqrt(1.25))
    assert half(rows)[0, -1] == pytest.approx(half.height, rel=1e-5)
    same(LinearRows(5, False, basis, unit_length=True), rows, shortened(rows @ basis, 1e-9))
    same(LinearRows(5, False, basis, radius=0.4), rows, shortened(rows @ basis, 0.4))
    tiny = LinearRows(1, False, np.ones((1, 1)), radius=2.0**-20)
    assert tiny(np.array([[2.0**-14]]))[0, 0] == pytest.approx(1.0, rel=1e-5)
    target = rng.normal(size=(40, 1)) * 30
    together, limit = np.hstack([rows, target]), np.clip(target, -64, 64)
    for beside, expected in (
        (BesideTarget(Centred(mean, 1.0), True), limit),
        (BesideTarget(Centred(mean, 1.0), True, 0.5, 0.1), np.clip(10 * target - 5, -64, 64)),
    ):
        same(beside, together, np.hstack([shortened(rows - mean, 1.0), expected]))
    box = Bounds(lower=[-1.0] * 4 + [0.0], upper=[1.0] * 5)
    low, high = box.box(5) or ()
    centre, radius = box.ball(5)
    same(IntoUnitBall(box, 5), rows, (np.clip(rows, low, high) - centre) / radius)
    before = replace(half, projection=basis, radius=0.4).weights_before
    np.testing.assert_allclose(before, basis / 0.4 / math.sqrt(1.25))
    cube = IntoUnitCube(box, 5)
    assert cube.inner_bounds == Bounds(lower=0.0, upper=1.0)
    expected = (np.clip(rows, low, high) - low) / (high - low)
    np.testing.assert_allclose(cube(rows), expected, atol=1e-12)
    np.testing.assert_allclose(cube.to_rows(expected), np.clip(rows, low, high), atol=1e-12)
    for longest in (1.0, 2.0**9):  # as many digits of longer columns
        exact = truncate_to_grid(rows, FINE_BITS) @ (basis * longest)
        assert np.abs(exact_projection(rows, basis * longest) - exact).max() < longest * 2.0**-22
