"""Tables at parties: each reads its own, and what chooses or cuts does so by noisy counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato import (
    Bounds,
    Fabricator,
    Ledger,
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateDensity,
    PrivateGaussianClassifier,
    PrivateLinearRegressor,
    TableBounds,
)
from sfumato.exceptions import FederationError, MissingBoundsError
from sfumato.federated import Federation, Party, Terms, make_parties
from sfumato.federated.messages import Request
from sfumato.federated.schema import SUM, packed, read_request, require_safe
from sfumato.ledger.receipt import prepay
from sfumato.mechanisms import GaussianMechanism
from sfumato.models.additive_rows import HatRows, HatSums, PairRows, PublicColumns, Sides, knots_at
from sfumato.privacy.guarantee import Relation
from sfumato.sums import ArrayRecords, ClassCounts, ClassMoments, SecondMoment
from sfumato.sums.counts import (
    EDGES,
    FAN_OUT,
    CountTables,
    PlaceCounts,
    PlaceTree,
    agreeing_counts,
    cuts_by_counts,
)
from sfumato.sums.gradients import GradientSum, ResidualSum
from sfumato.sums.losses import SoftmaxLoss
from sfumato.sums.maps import BesideTarget, IntoUnitBall, LinearRows
from sfumato.sums.statistics import Parts
from sfumato.synthetic.cells import ColumnCells, TableCells

N = 1500
BOUNDS = TableBounds.from_dict(
    {
        "age": {"lower": 0, "upper": 120, "missing": True},
        "town": ["Ghent", "Ypres", "Bruges"],
        "income": {"lower": 0, "upper": 1e6},
        "ill": ["no", "yes"],
    },
    target="ill",
)
TRUSTS = ("noisy", "secure")


def messy_table() -> pd.DataFrame:
    rng = np.random.RandomState(0)
    age = rng.uniform(18, 90, N)
    town = rng.choice(["Ghent", "Ypres", "Bruges"], N, p=[0.5, 0.3, 0.2])
    ill = age / 90 + (town == "Ypres") + rng.normal(0, 0.3, N) > 1.0
    income = np.exp(rng.normal(10, 1, N)) * (rng.uniform(size=N) > 0.2)
    age[::97] = np.nan
    town[::53] = "Antwerp"  # which is no category
    return pd.DataFrame(
        {"age": age, "town": town, "income": income, "ill": np.where(ill, "yes", "no")}
    )


TABLE = messy_table()


def federation(folder: Path, trust: str, n_parties: int = 3, **options: Any) -> Federation:
    parties = [
        Party.of_table(
            f"p{i}",
            TABLE.iloc[i::n_parties],
            folder / f"{trust}-{i}",
            bounds=BOUNDS,
            terms=Terms(table=BOUNDS, max_epsilon=100.0, colluding=0),
        )
        for i in range(n_parties)
    ]
    return Federation(parties, bounds=BOUNDS, trust=trust, colluding=0, **options)


@pytest.mark.parametrize("trust", TRUSTS)
def test_an_additive_model_over_tables_of_parties(trust: str, tmp_path: Path, noise: None) -> None:
    given = {"epsilon": 20.0, "delta": 1e-5, "bounds": BOUNDS, "n_steps": 8, "knots": "private"}
    records = federation(tmp_path, trust)
    model = PrivateAdditiveClassifier(**given, interactions=True).fit(records)
    central = PrivateAdditiveClassifier(**given, interactions=True).fit(TABLE)
    assert model.score(TABLE, TABLE["ill"]) > central.score(TABLE, TABLE["ill"]) - 0.05
    assert "each person has records at one party only" in model.guarantee_.conditions
    asked = [each.statistic for each in records.rounds]
    assert asked[:4] == ["PlaceTree", "HatSums", "CountTables", "SecondMoment"]
    assert asked.count("GradientSum") == 8
    assert model.knots_.shape == central.knots_.shape
    assert list(model.feature_names_in_) == ["age", "town", "income"]


@pytest.mark.parametrize("trust", TRUSTS)
def test_a_label_tree_over_tables_of_parties(trust: str, tmp_path: Path, noise: None) -> None:
    records = federation(tmp_path, trust)
    model = Fabricator(epsilon=20.0, delta=1e-5, bounds=BOUNDS, random_state=0).fit(records)
    assert model.method_ == "tree"
    made, labels = model.fabricate(4000)
    ages = made.to_pandas()["age"]
    assert abs(ages.median() - TABLE["age"].median()) < 4
    assert abs((labels == "yes").mean() - (TABLE["ill"] == "yes").mean()) < 0.05
    assert [each.statistic for each in records.rounds][:3] == [
        "PlaceTree",
        "CountTables",
        "CountTables",
    ]


@pytest.mark.parametrize("trust", TRUSTS)
def test_regressions_and_densities_over_rows_of_parties(
    trust: str, tmp_path: Path, noise: None
) -> None:
    rng = np.random.RandomState(1)
    X = rng.uniform(size=(900, 2))
    target = 100 * X[:, 0] + rng.normal(0, 5, 900)
    box = Bounds(lower=[0, 0], upper=[1, 1])

    def rows(name: str) -> Federation:
        parties = make_parties(X, target, tmp_path / name, n_parties=3, random_state=0)
        return Federation(parties, bounds=box, trust=trust, colluding=0)

    given: dict[str, Any] = {"epsilon": 20.0, "delta": 1e-5, "bounds": box}
    for number, model in enumerate(
        (
            PrivateLinearRegressor(target_bounds=(-50.0, 150.0), algorithm="moments", **given),
            PrivateLinearRegressor(
                target_bounds=(-50.0, 150.0), algorithm="noisy-gd", n_steps=8, **given
            ),
            PrivateAdditiveRegressor(target_bounds=(-50.0, 150.0), n_steps=24, **given),
        )
    ):
        records = rows(f"{trust}-{number}")
        assert model.fit(records).score(X, target) > 0.6
        assert len(records.rounds) >= 1
    density = PrivateDensity(n_cells=4, **given).fit(rows(f"{trust}-density"))
    central = np.histogram2d(X[:, 0], X[:, 1], bins=4, range=[[0, 1], [0, 1]])[0]
    assert np.abs(density.cell_counts_[..., 0] - central).max() < 10
    assert density.guarantee_.delta == 1e-5


def test_other_estimators_take_tables_of_parties_too(tmp_path: Path, noise: None) -> None:
    model = PrivateGaussianClassifier(epsilon=20.0, delta=1e-5, bounds=BOUNDS)
    model.fit(federation(tmp_path, "secure"))
    assert model.score(TABLE, TABLE["ill"]) > 0.75


def test_densities_by_processes_are_no_sums(tmp_path: Path) -> None:
    parties = make_parties(np.zeros((30, 3)), np.zeros(30), tmp_path, n_parties=3)
    box = Bounds(lower=[0, 0, 0], upper=[1, 1, 1])
    records = Federation(parties, bounds=box)
    with pytest.raises(Exception, match="in memory"):
        PrivateDensity(epsilon=1.0, delta=1e-5, bounds=box).fit(records)
    assert records.rounds == ()


# Cuts by noisy counts -----------------------------------------------------------------------------


def test_counts_of_groups_add_up_and_attain_their_sensitivity() -> None:
    rows = np.random.RandomState(0).uniform(size=(40, 2))
    rows[3, 1] = np.nan
    codes = np.zeros(40, dtype=np.intp)
    tree = PlaceTree((0, 1))
    nodes = tree.add_up(rows, codes)
    cells = PlaceCounts((0, 1)).add_up(rows, codes)
    assert nodes.shape == tree.shape
    np.testing.assert_array_equal(nodes[:, FAN_OUT + FAN_OUT**2 :][:, : cells.shape[1]], cells)
    assert nodes[0, :FAN_OUT].sum() == 40
    assert nodes[1, :FAN_OUT].sum() == 39
    far = np.array([[0.0, 0.0]]), np.array([[1.0, 1.0]])
    one, other = (tree.add_up(each, codes[:1]) for each in far)
    replaced, added = (tree.term_sensitivity(each) for each in Relation)
    assert np.linalg.norm(one - other) == pytest.approx(replaced, rel=1e-12)
    assert np.linalg.norm(one) == pytest.approx(added, rel=1e-12)


def test_agreeing_counts_are_those_of_least_squares() -> None:
    nodes = np.random.RandomState(0).normal(size=(2, PlaceTree((0, 1)).shape[1]))
    cells = agreeing_counts(nodes)
    groups = cells.reshape(2, -1, FAN_OUT).sum(axis=2)
    top = groups.reshape(2, -1, FAN_OUT).sum(axis=2)
    left = nodes - np.hstack([top, groups, cells])
    above, middle, below = np.split(left, [FAN_OUT, FAN_OUT + FAN_OUT**2], axis=1)
    # The normal equations: what is left adds up to nothing along the path of every cell.
    path = below + np.repeat(middle, FAN_OUT, axis=1) + np.repeat(above, FAN_OUT**2, axis=1)
    assert np.abs(path).max() < 1e-9


def test_cuts_without_noise_are_quantiles() -> None:
    rows = np.random.RandomState(0).beta(2, 5, size=(20_000, 1))
    nodes = PlaceTree((0,)).add_up(rows, np.zeros(20_000, dtype=np.intp))
    cuts = cuts_by_counts(nodes, 3)[0]
    found = EDGES[cuts.astype(int) - 1]
    np.testing.assert_allclose(found, np.quantile(rows, np.arange(1, 8) / 8), atol=1e-3)
    same = PlaceTree((0,)).add_up(np.full((50, 1), 0.3), np.zeros(50, dtype=np.intp))
    cuts = cuts_by_counts(same, 2)[0]
    assert np.isnan(cuts[1:]).all()  # one cut, above the only cell that counts
    assert np.isnan(cuts_by_counts(np.zeros_like(same), 2)).sum() >= 2


def test_knots_ascend_whatever_the_noise_says() -> None:
    rng = np.random.RandomState(0)
    for scale in (0.1, 3.0, 100.0):
        nodes = rng.normal(0, scale, size=(40, PlaceTree((0,)).shape[1]))
        nodes[:, -4] += 50  # many records in one cell
        for n_levels in (1, 3, 5):
            knots = knots_at(cuts_by_counts(nodes, n_levels))
            assert knots.shape == (40, 2**n_levels + 1)
            assert (np.diff(knots, axis=1) > 0).all()
            assert (knots[:, 0] == 0).all()
            assert (knots[:, -1] == 1).all()


def test_cuts_are_told_by_the_noise_that_was_paid_for(noise: None) -> None:
    rows = np.random.RandomState(0).uniform(size=(5000, 1))
    records = ArrayRecords(rows, relation="replace_one")
    tree = PlaceTree((0,))
    mechanism = GaussianMechanism.from_mu(sensitivity=records.sensitivity(tree), mu=0.5)
    cuts = cuts_by_counts(records.release(tree, mechanism, prepay(None, mechanism.event())), 2)
    assert np.abs(EDGES[cuts[0].astype(int) - 1] - [0.25, 0.5, 0.75]).max() < 0.05


# Requests that a party refuses --------------------------------------------------------------------

BOX = Bounds(lower=[0.0, 0.0], upper=[1.0, 1.0], labels=[0, 1])
COLUMNS = PublicColumns(("a", "b"), (0.0, 0.0), (1.0, 1.0), (None, None))
CELLS = ColumnCells("a", 0, 0.0, 1.0, False, None, False)
HATS = HatRows(COLUMNS, np.array([[0.0, 0.5, 1.0], [0.0, 0.2, 1.0]]))


def refusal(maps: tuple[Any, ...], statistic: Any) -> str:
    """What a party says of a sum, from the request alone."""
    arrays: dict[str, Any] = {}
    asked = {
        "maps": maps,
        "statistic": statistic,
        "mechanism": GaussianMechanism(3.0, 1.0),
        "bounds": BOX,
        "relation": Relation.REPLACE_ONE,
        "max_rows": 10,
        "kept": "",
        "reader": None,
    }
    request = Request("t", "sums.release.0", packed(asked, arrays), arrays)
    try:
        found = read_request(request, None).settings
        require_safe(
            found["maps"], found["statistic"], relation=found["relation"], n_classes=2, agreed=None
        )
    except FederationError as error:
        return str(error)
    return ""


def test_a_party_refuses_other_classes_than_its_records_have() -> None:
    """A sum that fails for records of class 1 only would tell that there is one."""
    ball = IntoUnitBall(BOX, 2)
    assert refusal((), ClassCounts(2)) == ""
    assert "has 1 classes" in refusal((), ClassCounts(1))
    assert "has 1 classes" in refusal((ball,), ClassMoments(1, 2, 0.5))
    wrong = Parts(np.zeros((1, 2)), np.zeros((1, 2, 1)))
    assert "parts do not fit" in refusal((ball,), ClassMoments(2, 2, 0.5, wrong))


def test_a_party_refuses_rows_that_could_leave_the_unit_ball() -> None:
    second = SecondMoment(6)
    assert refusal((HATS,), second) == ""
    flat = HatRows(COLUMNS, np.array([[0.0, 0.0, 1.0], [0.0, 0.2, 1.0]]))
    empty = HatRows(PublicColumns(("a", "b"), (0.0, 1.0), (1.0, 1.0), (None, None)), HATS.knots)
    pairs = np.array([[0, 1]])
    for maps, statistic, why in (
        ((flat,), second, "knots must ascend"),
        ((empty,), second, "ranges are not valid"),
        ((BesideTarget(HATS, True),), SecondMoment(7), "mapped into the unit ball"),
        ((PairRows(HATS, np.full(6, 3.0), pairs),), second, "'orders'"),
        ((PairRows(HATS, np.full(6, 0.1), pairs),), second, "orders or pairs"),
        ((HATS, Sides(HATS, np.full(6, 0.1), (0, 1))), CountTables((2, 2), ((0, 1),), 2), "orders"),
        ((PairRows(HATS, np.zeros(6), np.array([[0, 9]])),), second, "orders or pairs"),
        ((TableCells((CELLS,), ((0.0, 0.6, 0.3, 1.0),)),), CountTables((3,), ((0,),), 2), "ascend"),
        ((BesideTarget(HATS, True, 0.0, 0.0),), HatSums(2, 6, True), "'scale'"),
        ((COLUMNS,), HatSums(2, 2), "mapped into the unit ball"),
        ((HATS,), ResidualSum(1.0, np.zeros((1, 6))), "grid of linear rows"),
        ((HATS,), GradientSum(SoftmaxLoss(2), 1.0, np.zeros((1, 6))), "grid of linear rows"),
        ((BesideTarget(HATS, True),), ResidualSum(1.0, np.zeros((1, 6))), "grid of linear rows"),
        (
            (BesideTarget(HATS, True), BesideTarget(LinearRows(6, False), False)),
            ResidualSum(1.0, np.zeros((1, 6))),
            "by their bounds first",
        ),
    ):
        assert why in refusal(maps, statistic)


def test_parties_read_targets_within_their_unit_and_nothing_else() -> None:
    def read(**given: Any) -> Any:
        reader = {"scaled": True, "as_cells": False, "target": [0.0, 1.0, 0.5, 0.5]}
        return SUM["reader"]({**reader, **given}, None)

    assert read()["target"] == (0.0, 1.0, 0.5, 0.5)
    assert read(target=None)["target"] is None
    for given in (
        *({"as_cells": each} for each in (1, "True", None, "fit", [True])),
        *({"target": each} for each in ([0.0], [1.0, 0.0, 0.5, 0.5], [True, 2.0, 1.0, 1.0])),
        *({"target": [0.0, 1.0, *each]} for each in ([0.5, 0.4], [0.5, -0.5], [9.0, 1.0])),
        {"classes": None},
        {"estimator": "PrivatePCA", "method": "fit"},
    ):
        with pytest.raises(FederationError):
            read(**given)


def test_what_a_party_reads_by_is_what_it_agreed_on(tmp_path: Path) -> None:
    other = TableBounds.from_dict(
        {"age": {"lower": 0, "upper": 10}, "ill": ["no", "yes"]}, target="ill"
    )
    party = Party.of_table("one", TABLE, tmp_path / "a", bounds=BOUNDS)
    model = PrivateAdditiveClassifier(epsilon=1.0, delta=1e-5, bounds=other, n_steps=2)
    with pytest.raises(FederationError, match="not those that were agreed on"):
        model.fit(Federation([party], bounds=other))
    # The federation has the bounds that were agreed on, the estimator has others.
    with pytest.raises(FederationError, match="reads by other bounds"):
        model.fit(Federation([party], bounds=BOUNDS))
    rows = Party.of_rows("rows", np.zeros((5, 2)), np.zeros(5), tmp_path / "b")
    with pytest.raises(FederationError, match="no table"):
        Federation([rows], bounds=BOUNDS)


def test_each_party_pays_for_its_table_once(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.db")
    budgets = [ledger.create(f"p{i}", epsilon=2.0, delta=1e-5) for i in range(2)]
    parties = [
        Party.of_table(f"p{i}", TABLE.iloc[i::2], tmp_path / str(i), bounds=BOUNDS, ledger=each)
        for i, each in enumerate(budgets)
    ]
    model = Fabricator(epsilon=2.0, delta=1e-5, bounds=BOUNDS, random_state=0)
    for _ in range(2):  # the second one gets the sums of the first
        released = model.fit(Federation(parties, bounds=BOUNDS, task="t")).released_
    for each in budgets:
        assert 1.99 < each.spent() <= 2.0
    assert released["margins"].size


def test_a_regression_needs_the_range_of_its_target(tmp_path: Path) -> None:
    party = Party.of_table("one", TABLE, tmp_path, bounds=BOUNDS)
    model = PrivateLinearRegressor(epsilon=1.0, delta=1e-5, bounds=BOUNDS)
    records = Federation([party], bounds=BOUNDS)
    with pytest.raises(MissingBoundsError, match="target_bounds"):
        model.fit(records)
    assert records.rounds == ()
