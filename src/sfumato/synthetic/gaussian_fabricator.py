"""Fabricated arrays and images: rows drawn from private Gaussians of the classes."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from sfumato.core.constraints import (
    Form,
    integers,
    labels,
    numbers,
    one_of,
    optional,
    or_none,
    real,
    record,
    refuse,
    whole,
)
from sfumato.exceptions import UnsupportedModeError
from sfumato.models.gaussians import CentredGaussians, ClassGaussianSums, stored_gaussians
from sfumato.sums.grid import MAX_ROWS
from sfumato.sums.maps import IntoUnitBall, IntoUnitCube
from sfumato.synthetic.fabricator import RowFabricator
from sfumato.synthetic.table_law import share_out
from sfumato.tables.schema import TableBounds


@dataclass(eq=False, repr=False)
class GaussianFabricator(RowFabricator):
    r"""Make private rows of numbers, from private Gaussians of the classes.

    .. math:: x = m + r\,U u, \qquad u \sim N(\mu_c, \Sigma_c)

    Parameters
    ----------
    n_components : int, default=50
        Private directions U in which the Gaussians live; capped at the number of features.
    gaussians_per_class : {1, 2, 4}, optional
        Gaussians that make up a class; by default as many as epsilon, the number of rows (where it
        is public), of labels and of `n_components` allow.
    random_state : int, RandomState or None, default=None
        Public randomness: the draw of rows. Never the noise.
    $shared

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, where some were given.
    released_ : dict
        "counts", "means" and "covariances" of Gaussians, the "classes" they belong to, and the
        "centre", "basis" and "radius" of their coordinates.
    $guarantee

    Privacy
    -------
    Unit and relation : record with its label, or person, replace_one or add_or_remove_one.
    Released : three or four noisy sums; rows are drawn from the Gaussians that follow.
    Sensitivity : 2, √2, 1.25·√2 and 1.25·√2 (replace) in the unit ball.
    Guarantee : (epsilon, delta) for the unit.
    Assumptions and numerics : bounds and label set are public; sums are exact, noise is float-safe.
        Proof: docs/guarantees/fabrication.md.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sfumato import Bounds, GaussianFabricator
    >>> X, y = load_digits(return_X_y=True)
    >>> bounds = Bounds(lower=0.0, upper=16.0, labels=range(10))
    >>> rows, labels = GaussianFabricator(20, epsilon=8.0, bounds=bounds).fit_fabricate(X, y)
    >>> rows.shape
    (1797, 64)
    """

    n_components: int = 50
    _: KW_ONLY
    gaussians_per_class: int | None = None
    random_state: Any = None

    in_unit_ball: ClassVar[bool] = False  # its rows are seen in the unit cube first
    scales_columns: ClassVar[bool] = False  # likewise
    parameters: ClassVar[Form] = {
        "n_components": whole(least=1),
        "gaussians_per_class": one_of(None, 1, 2, 4),
    }
    learned: ClassVar[Form] = {
        "classes_": optional(labels("c")),
        "released_": record(
            centre=numbers("d"),
            basis=numbers("d", "k"),
            radius=real(above=0.0),
            classes=integers("g"),
            n_rows=or_none(whole(least=1, most=MAX_ROWS)),
            **stored_gaussians(),
        ),
    }

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        if isinstance(self.bounds, TableBounds):
            raise UnsupportedModeError(
                "GaussianFabricator makes arrays and needs Bounds(...). For a table with its "
                "TableBounds use Fabricator."
            )
        records, budget = self._begin_rows(X, y, groups)
        scale = IntoUnitCube(self.row_bounds, records.width)
        into_ball = IntoUnitBall(scale.inner_bounds, records.width)
        sums = ClassGaussianSums(  # [F1] the budget divided
            budget,
            records.mapped(scale).mapped(into_ball),
            n_classes=self._n_classes,
            n_components=min(self.n_components, records.width),
            n_parts=self.gaussians_per_class,
        )
        budget.charge()  # [F2] charge all, then draw
        released = sums.draw().in_units_of(scale.inner_bounds)  # [F3] the releases
        self.released_ = {**vars(released), "n_rows": records.public_rows}
        self.guarantee_ = budget.guarantee()
        return self

    def _draw(self, n_rows: int | None, generator: np.random.RandomState) -> Any:
        counts = self.released_["counts"]
        wanted = n_rows or self.released_["n_rows"] or int(np.rint(counts.sum()))
        first = np.argsort(-counts, kind="stable")[:wanted]  # at least one row of each Gaussian
        sizes = share_out(counts, wanted - len(first), generator)
        numbers = generator.permutation(np.append(first, np.repeat(np.arange(len(counts)), sizes)))
        released = CentredGaussians(**{k: v for k, v in self.released_.items() if k != "n_rows"})
        drawn = np.empty((wanted, released.basis.shape[1]))
        for number in np.unique(numbers):
            mine = numbers == number
            drawn[mine] = released.sample(int(number), int(mine.sum()), generator)
        scaled = released.to_rows(drawn)
        rows = IntoUnitCube(self.row_bounds, scaled.shape[1]).to_rows(scaled)
        has_labels = hasattr(self, "classes_")
        return (rows, self.classes_[released.classes[numbers]]) if has_labels else rows

    def _check_stored(self, sizes: dict[str, int]) -> None:
        if hasattr(self, "classes_") and self.released_["classes"].max(initial=0) >= sizes["c"]:
            raise refuse("released_", "codes of the labels")
