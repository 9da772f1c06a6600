"""Records at parties: the same algorithms over noisy and secure sums, each party paying once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from sfumato import (
    Bounds,
    Ledger,
    PrivateAdditiveClassifier,
    PrivateGaussianClassifier,
    PrivatePCA,
    TableBounds,
)
from sfumato.exceptions import FederationError
from sfumato.federated import Federation, Party, Terms, make_parties
from sfumato.federated.messages import Reply, Request
from sfumato.federated.schema import SUM, pack, read_request, require_safe
from sfumato.ledger.receipt import prepay
from sfumato.mechanisms import GaussianMechanism
from sfumato.models.additive_rows import HatRows, HatSums, PairRows, PublicColumns, Sides
from sfumato.models.base import Reader
from sfumato.privacy.guarantee import Relation
from sfumato.sums import ArrayRecords, SecondMoment
from sfumato.sums.gradients import GradientSum, ResidualSum, SoftmaxLoss
from sfumato.sums.grid import MAX_ROWS_SECRET_N
from sfumato.sums.maps import (
    BesideTarget,
    Centred,
    IntoUnitBall,
    IntoUnitCube,
    LinearRows,
    Projected,
)
from sfumato.sums.statistics import ClassCounts, ClassMoments, CountTables, MeanAndSquares, Parts
from sfumato.synthetic.cells import ColumnCells, TableCells
from tests.federated.test_requests import TABLE_BOUNDS

X, Y = load_digits(return_X_y=True)
X, Y = X[:400], Y[:400]
BOUNDS = Bounds(norm=80.0, labels=range(10))
TRUSTS = ("noisy", "secure")
BALL = IntoUnitBall(BOUNDS, 64)
READER = Reader(BOUNDS, as_cells=True, classes=np.arange(10))
TINY = Bounds(lower=[-1e-3] * 64, upper=[1e-3] * 64)  # rows scaled to it leave the unit ball


def parties_in(folder: Path, n_parties: int = 5, **options: Any) -> list[Party]:
    return make_parties(X, Y, folder, n_parties=n_parties, random_state=0, bounds=BOUNDS, **options)


def exact_sum(statistic: Any, folder: Path, trust: str) -> np.ndarray:
    """A sum with hardly any noise, and no promise worth the name."""
    mechanism = GaussianMechanism(2.5, 2.0**-16)
    records = Federation(parties_in(folder), bounds=BOUNDS, trust=trust).mapped(BALL)
    return records.release(statistic, mechanism, prepay(None, mechanism.event()))


@pytest.mark.parametrize("trust", TRUSTS)
def test_the_sum_over_parties_is_the_sum_over_all_rows(trust: str, tmp_path: Path) -> None:
    central = ArrayRecords(X, Y.astype(np.intp), relation="replace_one").mapped(BALL)
    for statistic in (MeanAndSquares(64), SecondMoment(64), ClassMoments(10, 64, 0.5)):
        found = exact_sum(statistic, tmp_path / type(statistic).__name__ / trust, trust)
        mechanism = GaussianMechanism(2.5, 2.0**-16)
        plain = central.release(statistic, mechanism, prepay(None, mechanism.event()))
        assert found.shape == statistic.shape
        assert np.abs(found - plain).max() < 2e-3  # 20 deviations of the noise


def test_each_party_pays_once_and_a_run_of_the_same_name_gets_the_same_sums(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    for number in range(3):
        ledger.create(f"party-{number}", epsilon=2.0, delta=1e-5)
    models = []
    for _ in range(2):  # the second one is another process, as far as the parties can tell
        parties = parties_in(tmp_path / "parties", 3, ledger=ledger.dataset)
        model = PrivatePCA(n_components=2, epsilon=2.0, delta=1e-5, bounds=BOUNDS)
        models.append(model.fit(Federation(parties, bounds=BOUNDS, trust="noisy", task="pca")))
    assert np.array_equal(models[0].components_, models[1].components_)
    for number in range(3):
        budget = ledger.dataset(f"party-{number}")
        assert len(budget.events()) == 1
        assert 1.99 < budget.spent() <= 2.0


def test_a_party_insists_on_noise_that_bears_colluding_parties(tmp_path: Path) -> None:
    parties = [
        Party.of_rows(f"p{i}", X[i::3], Y[i::3], tmp_path / str(i), terms=Terms(BOUNDS))
        for i in range(3)
    ]
    model = PrivatePCA(n_components=2, epsilon=1.0, delta=1e-5, bounds=BOUNDS)
    with pytest.raises(
        FederationError, match="the sum tolerates 0 colluding parties, 1 are required"
    ):
        model.fit(Federation(parties, bounds=BOUNDS, trust="secure", colluding=0))
    model.fit(Federation(parties, bounds=BOUNDS, trust="secure", colluding=1))


class Losing:
    """A carrier that loses what some parties say, from some step on."""

    def __init__(self, parties: list[Party], lost: Mapping[str, str]) -> None:
        self.parties = {party.name: party for party in parties}
        self.names, self.conditions, self.lost = list(self.parties), [], dict(lost)
        self.gone: set[str] = set()

    def ask(self, requests: Mapping[str, Request]) -> dict[str, Reply]:
        self.gone |= {
            name
            for name, phase in self.lost.items()
            if name in requests and requests[name].phase.startswith(phase)
        }
        return {
            name: self.parties[name].answer(request)
            for name, request in requests.items()
            if name not in self.gone
        }


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [
        *(("facts", "width", "wide"), ("facts", "n_rows", np.nan), ("facts", "boxes", [])),
        *(("facts", "boxes", {}), ("arrays", "released", np.inf), ("arrays", "released", 1e300)),
    ],
)
def test_a_party_that_lies_ends_the_fit_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, name: str, value: Any
) -> None:
    """Found: the coordinator raised whatever its own code raises, most of it after the charge."""
    *others, liar = parties_in(tmp_path, 3)
    honest = liar.answer

    def answer(request: Request) -> Reply:
        reply = honest(request)
        told = dict(getattr(reply, place))
        if name in told:
            told[name] = np.full_like(told[name], value) if place == "arrays" else value
        return replace(reply, **{place: told})

    monkeypatch.setattr(liar, "answer", answer)
    trust = "secure" if name == "boxes" else "noisy"
    with pytest.raises(FederationError):
        MODEL.fit(Federation([*others, liar], bounds=BOUNDS, trust=trust, colluding=0))


@pytest.mark.parametrize(
    "case", [("noisy", "sums.release.1"), ("secure", "sums.mask.1"), ("secure", "sums.reveal.1")]
)
def test_a_party_that_vanishes_is_left_out(case: tuple[str, str], tmp_path: Path) -> None:
    trust, step = case
    carrier = Losing(parties_in(tmp_path / trust / step), {"party-3": step})
    federation = Federation(carrier, bounds=BOUNDS, trust=trust, colluding=0, dropouts=1)
    assert federation.public_rows == 400
    model = PrivateGaussianClassifier(
        n_components=10, gaussians_per_class=1, epsilon=30.0, delta=1e-5, bounds=BOUNDS
    )
    model.fit(federation)
    # A party that vanishes after its numbers have come is in that sum, and missed in the next.
    late = step.startswith("sums.reveal")
    assert [len(each.included) for each in federation.rounds] == ([5, 5, 4] if late else [5, 4, 4])
    assert federation.public_rows == 320
    assert model.counts_.sum() == pytest.approx(320, abs=1)


@pytest.mark.parametrize("trust", TRUSTS)
def test_the_total_carries_the_noise_that_is_told(trust: str, tmp_path: Path) -> None:
    from scipy.stats import chi2

    from sfumato.audit.testing import seeded_noise

    mechanism = GaussianMechanism(2.5, 4.0)
    federation = Federation(
        parties_in(tmp_path / trust), bounds=BOUNDS, trust=trust, dropouts=int(trust == "secure")
    )
    with seeded_noise(0):
        found = federation.mapped(BALL).release(
            ClassMoments(10, 64, 0.5), mechanism, prepay(None, mechanism.event())
        )
    central = ArrayRecords(X, Y.astype(np.intp), relation="replace_one").mapped(BALL)
    tiny = GaussianMechanism(2.5, 2.0**-16)
    plain = central.release(ClassMoments(10, 64, 0.5), tiny, prepay(None, tiny.event()))
    off = (found - plain)[:, *np.triu_indices(65, k=1)].ravel()
    ratio = 2 * (off**2).sum() / federation.variance_of(mechanism)
    low, high = chi2.ppf([5e-7, 1 - 5e-7], off.size)
    assert low < ratio < high
    assert not low < ratio * 1.25 < high  # the test can fail


# A coordinator that sends what it should not ------------------------------------------------------


def begun(
    folder: Path, mechanism: GaussianMechanism, **options: Any
) -> tuple[Party, dict[str, Any]]:
    party = Party.of_rows("one", X, Y, folder, terms=Terms(BOUNDS, max_epsilon=100.0), **options)
    settings = {
        "events": pack([mechanism.event()], {}),
        "bounds": pack(BOUNDS, {}),
        "relation": "replace_one",
    }
    assert party.answer(Request("t", "sums.begin", settings)).refusal is None
    return party, {
        "mechanism": pack(mechanism, {}),
        "relation": "replace_one",
        "max_rows": 400,
        "kept": "",
        "reader": pack(READER, {}),
    }


def asked_for(
    party: Party,
    settings: dict[str, Any],
    maps: Any,
    statistic: Any,
    number: int = 0,
    **changes: Any,
) -> str | None:
    arrays: dict[str, Any] = {}
    record = {
        **settings,
        "maps": pack(tuple(maps), arrays),
        "statistic": pack(statistic, arrays),
        **changes,
    }
    return party.answer(Request("t", f"sums.release.{number}", record, arrays)).refusal


def test_a_party_refuses_maps_that_would_break_the_sensitivity(tmp_path: Path) -> None:
    mechanism = GaussianMechanism(2.5, 1.0)
    party, settings = begun(tmp_path, mechanism)
    wide = np.full((64, 64), 0.125)
    outside = np.full(64, 1.0)
    second = SecondMoment(64)
    for maps, why in (
        ((), "mapped into the unit ball"),
        ((Centred(np.zeros(64), 1.0),), "by their bounds first"),
        ((BALL, Projected(np.zeros(64), wide, 1.0)), "lengthens rows"),
        ((BALL, Projected(outside, np.eye(64), 1.0)), "outside the unit ball"),
        ((BALL, Centred(np.zeros(64), 1e-9)), "radius"),
        ((BALL, LinearRows(64, False, wide)), "lengthens rows"),
        ((BALL, LinearRows(64, False, radius=-1.0)), "'radius' must be a number"),
        ((BALL, IntoUnitCube(TINY, 64), LinearRows(64, False)), "by their bounds first"),
    ):
        assert why in str(asked_for(party, settings, maps, second))
    assert asked_for(party, settings, (BALL,), second) is None  # nothing of it was stored


def test_a_party_draws_no_more_than_was_paid_for(tmp_path: Path) -> None:
    mechanism = GaussianMechanism(2.5, 1.0)
    party, settings = begun(tmp_path, mechanism)
    second = SecondMoment(64)
    assert asked_for(party, settings, (BALL,), second) is None
    assert asked_for(party, settings, (BALL,), second) is None  # the stored one again
    assert "different settings" in str(asked_for(party, settings, (BALL,), MeanAndSquares(64)))
    said = asked_for(party, settings, (BALL,), second, number=1)
    assert "was not charged for" in str(said)
    said = asked_for(party, settings, (BALL,), second, number=3)
    assert "Sum 2 comes before sum 3" in str(said)
    asked = {"maps": [], "statistic": pack(ClassCounts(10), {})}
    other = party.answer(Request("u", "sums.release.0", {**settings, **asked}))
    assert "has not agreed to the task" in str(other.refusal)


def test_a_party_draws_no_sum_again_under_another_name(tmp_path: Path) -> None:
    """A phase that looks like the first sum would be paid by the same event, again and again."""
    party, settings = begun(tmp_path, GaussianMechanism(2.5, 1.0))
    arrays: dict[str, Any] = {}
    asked = {"maps": pack((BALL,), arrays), "statistic": pack(SecondMoment(64), arrays)}
    first = party.answer(Request("t", "sums.release.0", {**settings, **asked}, arrays))
    assert first.refusal is None
    for tail in ("00", "0x", "-0", "+0", "0.0", "\u0660", "\u00b2", " 0", "", "False", "1" * 99):
        said = party.answer(Request("t", f"sums.release.{tail}", {**settings, **asked}, arrays))
        assert "phase is not known" in str(said.refusal)
    for phase in ("sums.releaseZ", "sums.release"):
        said = party.answer(Request("t", phase, {**settings, **asked}, arrays))
        assert "phase is not known" in str(said.refusal)


def test_a_sum_keeps_to_what_its_task_was_begun_with(tmp_path: Path) -> None:
    """Noise for adding a record would be too little for replacing one, which was paid for."""
    party, settings = begun(tmp_path, GaussianMechanism(1.001, 1.0))
    for changes in (
        {"relation": "add_or_remove_one"},
        {"reader": pack(replace(READER, bounds=Bounds(norm=1.0, labels=range(10))), {})},
    ):
        said = asked_for(party, settings, (BALL,), SecondMoment(64), **changes)
        assert "different terms" in str(said)


def test_gradients_that_would_not_be_exact_are_refused(tmp_path: Path) -> None:
    party, settings = begun(tmp_path, GaussianMechanism(3.0, 1.0))
    long = np.full((10, 64), 2.0**200)
    for statistic, why in (
        (GradientSum(SoftmaxLoss(10), 1.0, long, slope_bits=8), "'weights'"),
        (GradientSum(SoftmaxLoss(10), 1.0, long / 2.0**191, slope_bits=8), "too long"),
        (GradientSum(SoftmaxLoss(10), 1.0, long / 2.0**240), "on their grid"),
        (GradientSum(SoftmaxLoss(10), 1.0, np.zeros((10, 64)), slope_bits=40), "'slope_bits'"),
    ):
        assert why in str(asked_for(party, settings, (BALL,), statistic))


def test_a_party_refuses_noise_for_a_smaller_sensitivity(tmp_path: Path) -> None:
    mechanism = GaussianMechanism(0.5, 1.0)
    party, settings = begun(tmp_path, mechanism)
    said = asked_for(party, settings, (BALL,), SecondMoment(64))
    assert "smaller sensitivity" in str(said)
    tight = {"mechanism": pack(GaussianMechanism(1.4143, 1.0), {}), "max_rows": 2**40}
    said = asked_for(party, settings, (BALL,), SecondMoment(64), **tight)
    assert "smaller sensitivity" in str(said)  # of so many rows in all, sums are rounded
    other = pack(GaussianMechanism(2.5, 1.0), {})  # as much noise per sensitivity
    assert asked_for(party, settings, (BALL,), SecondMoment(64), mechanism=other) is None


def test_a_refusal_for_too_little_noise_does_not_tell_a_secret_number_of_rows(
    tmp_path: Path,
) -> None:
    statistic, relation = SecondMoment(64), "add_or_remove_one"
    enough = [statistic.sensitivity(Relation(relation), n) for n in (400, MAX_ROWS_SECRET_N)]
    assert enough[0] < enough[1]
    for needed, is_refused in zip(enough, (True, False), strict=True):
        mechanism = GaussianMechanism(needed, 1.0)
        terms = Terms(BOUNDS, relation=relation, max_epsilon=100.0)
        party = Party.of_rows("one", X, Y, tmp_path / f"{is_refused}", terms=terms)
        begin = {
            "events": pack([mechanism.event()], {}),
            "bounds": pack(BOUNDS, {}),
            "relation": relation,
        }
        assert party.answer(Request("t", "sums.begin", begin)).refusal is None
        settings = {
            "mechanism": pack(mechanism, {}),
            "relation": relation,
            "max_rows": 400,
            "kept": "",
            "reader": pack(READER, {}),
        }
        said = asked_for(party, settings, (BALL,), statistic)
        assert ("smaller sensitivity" in str(said)) == is_refused, said


def test_a_party_hides_the_number_of_its_rows(tmp_path: Path) -> None:
    request = Request(
        "t", "sums.describe", {"relation": "replace_one", "trust": "noisy", "table": False}
    )
    terms = Terms(BOUNDS, relation="add_or_remove_one")
    party = Party.of_rows("one", X, Y, tmp_path / "terms", terms=terms)
    assert "does not reveal the number" in str(party.answer(request).refusal)
    ledger = Ledger(tmp_path / "l.db")
    ledger.create("rows", epsilon=1.0, delta=1e-5, relation="add_or_remove_one")
    party = Party.of_rows("one", X, Y, tmp_path / "ledger", ledger=ledger.dataset("rows"))
    assert "does not reveal the number" in str(party.answer(request).refusal)
    asked = {"relation": "add_or_remove_one", "trust": "noisy", "table": False}
    other = Request("t", "sums.describe", asked)
    assert party.answer(other).facts == {"width": 64}


def test_a_bound_on_numbers_is_no_question_about_them(tmp_path: Path) -> None:
    """A coordinator that agrees on a smaller bound would learn whether numbers pass it."""
    federation = Federation(parties_in(tmp_path, 3), bounds=BOUNDS, trust="secure", colluding=0)
    agreed = federation._agreement

    def smaller(task: str, number: int, size: int, largest: int, about: str = "") -> Any:
        return agreed(task, number, size, largest // 8, about)

    federation._agreement = smaller  # type: ignore[method-assign]
    mechanism = GaussianMechanism(2.0, 1.0)
    view = federation.mapped(BALL)
    with pytest.raises(FederationError, match="below the public one"):
        view.release(SecondMoment(64), mechanism, prepay(None, mechanism.event()))


MODEL = PrivateGaussianClassifier(
    n_components=10, gaussians_per_class=1, epsilon=30.0, delta=1e-5, bounds=BOUNDS
)


class Interrupted(Losing):
    """A coordinator that is killed when it is about to ask for a step."""

    def __init__(self, parties: list[Party], step: str) -> None:
        super().__init__(parties, {})
        self.step = step

    def ask(self, requests: Mapping[str, Request]) -> dict[str, Reply]:
        if any(each.phase.startswith(self.step) for each in requests.values()):
            raise KeyboardInterrupt
        return super().ask(requests)


@pytest.mark.parametrize("trust", TRUSTS)
def test_an_interrupted_fit_goes_on_and_costs_nobody_twice(trust: str, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    for number in range(4):
        ledger.create(f"party-{number}", epsilon=30.0, delta=1e-5)
    given: dict[str, Any] = {"bounds": BOUNDS, "trust": trust, "task": "t", "colluding": 0}
    given["totals"] = tmp_path / "totals"
    step = "sums.release.1" if trust == "noisy" else "sums.advertise.1"
    parties = parties_in(tmp_path / "parties", 4, ledger=ledger.dataset)
    first = Federation(Interrupted(parties, step), **given)
    with pytest.raises(KeyboardInterrupt):
        MODEL.fit(first)
    assert len(first.rounds) == 1
    parties = parties_in(tmp_path / "parties", 4, ledger=ledger.dataset)  # all started anew
    again = Federation(parties, **given)
    found = MODEL.fit(again)
    assert len(again.rounds) == 3
    np.testing.assert_array_equal(again.released[0], first.released[0])
    assert all(29.9 < ledger.dataset(f"party-{n}").spent() <= 30.0 for n in range(4))
    third = Federation(parties, **given)  # all of it from the folder: nobody is asked for sums
    np.testing.assert_array_equal(MODEL.fit(third).means_, found.means_)


N = 1500


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


def table_federation(folder: Path, trust: str, n_parties: int = 3, **options: Any) -> Federation:
    parties = [
        Party.of_table(
            f"p{i}",
            TABLE.iloc[i::n_parties],
            folder / f"{trust}-{i}",
            bounds=TABLE_BOUNDS,
            terms=Terms(table=TABLE_BOUNDS, max_epsilon=100.0, colluding=0),
        )
        for i in range(n_parties)
    ]
    return Federation(parties, bounds=TABLE_BOUNDS, trust=trust, colluding=0, **options)


@pytest.mark.parametrize("trust", TRUSTS)
def test_an_additive_model_over_tables_of_parties(trust: str, tmp_path: Path, noise: None) -> None:
    given = {
        "epsilon": 20.0,
        "delta": 1e-5,
        "bounds": TABLE_BOUNDS,
        "n_steps": 8,
        "knots": "private",
    }
    records = table_federation(tmp_path, trust)
    model = PrivateAdditiveClassifier(**given, interactions=True).fit(records)
    central = PrivateAdditiveClassifier(**given, interactions=True).fit(TABLE)
    assert model.score(TABLE, TABLE["ill"]) > central.score(TABLE, TABLE["ill"]) - 0.05
    assert "each person has records at one party only" in model.guarantee_.conditions
    asked = [each.statistic for each in records.rounds]
    assert asked[:4] == ["ClassCounts", "PlaceTree", "HatSums", "CountTables"]
    assert asked.count("GradientSum") == 8
    assert model.knots_.shape == central.knots_.shape
    assert list(model.feature_names_in_) == ["age", "town", "income"]


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
        "relation": Relation.REPLACE_ONE,
        "max_rows": 10,
        "kept": "",
        "reader": Reader(BOX, classes=np.array([0, 1])),
    }
    request = Request("t", "sums.release.0", pack(asked, arrays), arrays)
    try:
        found = read_request(request, None).settings
        require_safe(found["maps"], found["statistic"], relation=found["relation"], n_classes=2)
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


def test_parties_read_by_their_own_labels_and_nothing_else() -> None:
    def read(**given: Any) -> Any:
        reader = {"bounds": pack(BOX, {}), "scaled": True, "as_cells": False}
        record = {**reader, "classes": [0, 1], "target": None, **given}
        return SUM["reader"]({"Reader": record}, None)

    assert read(target=[0.0, 1.0, 0.5, 0.5]).target == (0.0, 1.0, 0.5, 0.5)
    assert read(classes=None).classes is None
    plain = pack(Bounds(lower=[0.0, 0.0], upper=[1.0, 1.0]), {})
    for given in (
        *({"classes": each} for each in ([0], [1, 0], [0, 1, 2], ["0", "1"], [])),
        *({"target": each} for each in ([0.0], [1.0, 0.0, 0.5, 0.5], [True, 2.0, 1.0, 1.0])),
        *({"target": [0.0, 1.0, *each]} for each in ([0.5, 0.4], [0.5, -0.5], [9.0, 1.0])),
        {"bounds": plain},  # which have no labels
        {"person": None},
        {"y": "ill"},
    ):
        with pytest.raises(FederationError):
            read(**given)


def test_what_a_party_reads_by_is_what_it_agreed_on(tmp_path: Path) -> None:
    other = TableBounds.from_dict(
        {"age": {"lower": 0, "upper": 10}, "ill": ["no", "yes"]}, target="ill"
    )
    party = Party.of_table("one", TABLE, tmp_path / "a", bounds=TABLE_BOUNDS)
    model = PrivateAdditiveClassifier(epsilon=1.0, delta=1e-5, bounds=other, n_steps=2)
    with pytest.raises(FederationError, match="not the ones agreed on"):
        model.fit(Federation([party], bounds=other))
    # The federation has the bounds that were agreed on, the estimator has others.
    with pytest.raises(FederationError, match="bounds of the estimator"):
        model.fit(Federation([party], bounds=TABLE_BOUNDS))
    rows = Party.of_rows("rows", np.zeros((5, 2)), np.zeros(5), tmp_path / "b")
    with pytest.raises(FederationError, match="no table"):
        Federation([rows], bounds=TABLE_BOUNDS)
