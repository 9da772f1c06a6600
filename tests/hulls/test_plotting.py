import sys

import numpy as np
import pytest

from sfumato.exceptions import InvalidInputError
from sfumato.models.hulls import AffineHullClassifier, KernelAffineHull, plot_distance, plot_image


@pytest.fixture
def ax():
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    matplotlib.use("agg")
    from matplotlib import pyplot

    yield pyplot.figure().gca()
    pyplot.close("all")


@pytest.fixture
def rows(rng):
    return rng.random((30, 2))


def test_distance_is_drawn_on_a_grid_around_the_rows(ax, rows):
    hull = KernelAffineHull(2).fit(rows)
    assert plot_distance(hull, rows, ax=ax, n_grid=20) is ax
    values = ax.collections[0].get_array()
    assert values.size == 400
    assert values.min() >= 0


def test_least_distance_of_a_classifier_is_drawn(ax, rows):
    model = AffineHullClassifier(2).fit(rows, np.arange(30) % 3)
    plot_distance(model, rows, ax=ax, n_grid=10)
    assert ax.collections[0].get_array().size == 100


def test_image_is_drawn(ax, rows):
    plot_image(KernelAffineHull(2).fit(rows), rows, ax=ax, n_grid=10)
    assert [line.get_label() for line in ax.lines] == ["image", "rows"]


def test_only_the_plane_is_drawn(rng):
    with pytest.raises(InvalidInputError, match=r"must have shape \(n_samples, 2\)"):
        plot_image(None, rng.random((4, 3)))


def test_missing_matplotlib_is_explained(rows, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"sfumato\[plot\]"):
        plot_image(None, rows)
