"""The target's classifier: pseudo labels, improved in rounds (equations 82 and 83)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.mappings.classifier import MembershipClassifier

__all__ = ["Rounds", "first_errors"]

Array = NDArray[Any]
Codes = NDArray[np.intp]
MOST_FIRST_COMPONENTS = 20
N_FOLDS = 2


@dataclass(frozen=True)
class Rounds:
    """How pseudo labels are improved.

    Parameters
    ----------
    schedule : sequence of int
        Subspace dimension of each round, not falling.
    cross_fit : bool
        Whether a row gets its label from a model that did not see the row. As printed the model
        is fitted on the very rows that it labels, and confirms itself.
    width : int
        The p of averages, see `fit_layer`.
    parameters : dict
        Of the autoencoders.
    generator : RandomState
        Folds and starts of k-means.
    """

    schedule: tuple[int, ...]
    cross_fit: bool
    width: int
    parameters: dict[str, Any]
    generator: np.random.RandomState

    def run(self, rows: Array, codes: Codes, labelled: NDArray[np.bool_]) -> Codes:
        """Give the codes after all rounds; those of labelled rows stay."""
        folds = self._folds(labelled)
        for n_components in self.schedule:
            found = codes.copy()
            for fold in np.unique(folds[~labelled]):
                asked = ~labelled & (folds == fold)
                learned = (
                    labelled | (folds != fold) if self.cross_fit else np.full(len(codes), True)
                )
                model = self.model(rows[learned], codes[learned], n_components)
                found[asked] = self._labels(model, rows[asked])
            codes = found
        return codes

    def model(self, rows: Array, codes: Codes, n_components: int) -> MembershipClassifier:
        """Fit one classifier; a class that lost all its rows is absent from its `classes_`."""
        model = MembershipClassifier(
            n_components, random_state=self.generator.randint(2**31 - 1), **self.parameters
        )
        return model.fit_with_width(rows, codes, self.width)

    def _folds(self, labelled: NDArray[np.bool_]) -> NDArray[np.intp]:
        n_rows = len(labelled)
        if not self.cross_fit:
            return np.zeros(n_rows, dtype=np.intp)
        return self.generator.permutation(np.arange(n_rows) % N_FOLDS)

    def _labels(self, model: MembershipClassifier, rows: Array) -> Codes:
        return np.asarray(model.classes_[model.errors(rows).argmin(axis=1)])


def first_errors(rounds: Rounds, rows: Array, codes: Codes, labelled: NDArray[np.bool_]) -> Array:
    """Errors of all rows under a classifier of the labelled ones alone, with every point inducing.

    Its subspace dimension is one less than the smallest class has rows, at most 20.
    """
    smallest = int(np.bincount(codes[labelled]).min())
    n_components = max(1, min(MOST_FIRST_COMPONENTS, smallest - 1))
    first = Rounds(
        (n_components,),
        False,
        rounds.width,
        rounds.parameters | {"n_layers": 1, "inducing_ratio": 1.0},
        rounds.generator,
    )
    model = first.model(rows[labelled], codes[labelled], n_components)
    return np.asarray(model.errors(rows))
