"""What is public about columns, and their values in the units of the table."""

from __future__ import annotations

from datetime import date

import numpy as np
import pandas as pd
import pytest

from sfumato import PrivateAdditiveClassifier, TableBounds
from sfumato.models.additive.columns import PublicColumns
from sfumato.models.additive.plotting import plot_explanation
from sfumato.report.charts import column_curve

TABLE = {
    "smoker": {"type": "bool", "lower": 0, "upper": 1},
    "admitted": {
        "type": "date32[day]",
        "lower": date(2020, 1, 1),
        "upper": date(2024, 12, 31),
        "parts": ["time"],
    },
    "income": {"lower": 1.0, "upper": 10_000.0, "log": True},
    "stays": {"lower": 0.0, "upper": 99.0, "log": True},
    "ill": ["no", "yes"],
}
BOUNDS = TableBounds.from_dict(TABLE, target="ill")


def test_knots_are_told_in_the_units_of_the_table() -> None:
    columns = PublicColumns.of(BOUNDS, ())
    ends = np.array([0.0, 1.0])
    assert columns.values(1, ends) == (date(2020, 1, 1), date(2024, 12, 31))
    assert columns.values(2, np.array([0.0, 0.5, 1.0])) == pytest.approx((1.0, 100.0, 10_000.0))
    assert columns.values(3, ends) == pytest.approx((0.0, 99.0))


def test_truth_values_have_no_knots_and_dates_are_drawn_as_dates(
    rng: np.random.Generator,
) -> None:
    n = 500
    table = pd.DataFrame(
        {
            "smoker": rng.random(n) < 0.4,
            "admitted": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1800, n), "D"),
            "income": rng.uniform(1, 10_000, n),
            "stays": rng.integers(0, 99, n).astype(float),
        }
    )
    label = np.where(table["smoker"], "yes", "no")
    model = PrivateAdditiveClassifier(epsilon=np.inf, bounds=BOUNDS).fit(table, label)
    assert model.score(table, label) > 0.95
    explanation = model.explain()
    curves = {curve.name: curve for curve in explanation.curves}
    assert curves["smoker"].values == (False, True)
    assert not curves["smoker"].is_number
    dates = curves["admitted.time"].to_dict()["values"]
    assert dates[0] == "2020-01-01"
    assert ">2020-01-01<" in column_curve(curves["admitted.time"], key="k")
    (axis,) = [a for a in plot_explanation(explanation).axes if a.get_title() == "admitted.time"]
    ticks = [axis.xaxis.get_major_formatter()(place) for place in axis.get_xticks()]
    assert any(tick.startswith("202") for tick in ticks)
