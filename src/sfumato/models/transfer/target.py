"""The target's classifier: pseudo labels, improved in rounds (equations 82 and 83)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.core.arrays import clip_to_finite
from sfumato.exceptions import InvalidInputError
from sfumato.models.mappings import MembershipClassifier
from sfumato.tables.bounds import label_places

Array = NDArray[Any]
Codes = NDArray[np.intp]
UNLABELLED = -1
NOT_PROTECTED = (
    "the changed record is one of the source; the rows and labels of the target are not protected"
)
WARNING = (
    "The target is not protected: the fitted model is made from its raw rows and labels, and "
    "contains projections of single rows. Give it only to people who may see the target, "
    "or use protect_target=True."
)
N_FOLDS = 2
MAX_WEIGHT = 0.25  # of a source beside the target


@dataclass(frozen=True)
class Rounds:
    """How pseudo labels are improved.

    schedule: Subspace dimension of each round, not falling.
    cross_fit: Whether a row gets its label from a model that did not see the row. As printed the
        model is fitted on the very rows that it labels, and confirms itself.
    width: The p of averages, see `fit_layer`.
    parameters: Of the autoencoders.
    generator: Folds and starts of k-means.
    """

    schedule: tuple[int, ...]
    cross_fit: bool
    width: int
    parameters: dict[str, Any]
    generator: np.random.RandomState

    def run(self, rows: Array, codes: Codes, labelled: NDArray[np.bool_]) -> Codes:
        """Return the codes after all rounds; those of labelled rows stay."""
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


def all_errors(model: MembershipClassifier, rows: Array, n_classes: int) -> Array:
    """Errors under every class; infinite for one that has no rows left."""
    found = np.full((len(rows), n_classes), np.inf)
    found[:, model.classes_] = model.errors(rows)
    return found


def sound_rows(rows: Array, default: Array | None = None) -> Array:
    """Return rows of an unprotected target, which has no bounds, without numbers that overflow.

    A row with missing or infinite numbers becomes the default, or the mean of the others.
    """
    whole = np.asarray(np.isfinite(rows).all(axis=1))
    if default is None:
        default = rows[whole].mean(axis=0) if whole.any() else np.zeros(rows.shape[1])
    return np.asarray(clip_to_finite(np.where(whole[:, None], rows, default)))


def target_codes(classes: Array, labels: Array, *, may_be_unknown: bool = False) -> Codes:
    """Return the place of each label in the public set, -1 for none.

    `may_be_unknown` takes a label outside the set for none: that of a protected record may be
    anything.
    """
    if (label_places(classes, np.array([UNLABELLED, str(UNLABELLED)], object)) >= 0).any():
        raise InvalidInputError("-1 marks a target row without label; it cannot be a label.")
    places = label_places(classes, labels)
    marked = label_places(np.array([UNLABELLED]), labels) == 0
    if not may_be_unknown and not (marked | (places >= 0)).all():
        raise InvalidInputError("'y_target' contains a label that the source does not have.")
    return places


def require_every_class(codes: Codes, n_classes: int, what: str) -> None:
    """Refuse a target without a labelled row of each class."""
    missing = n_classes - len(np.unique(codes[codes >= 0]))
    if missing:
        raise InvalidInputError(
            f"{missing} of {n_classes} classes have no labelled target row; {what} needs at least "
            "one for each."
        )


def require_start(
    codes: Codes,
    n_classes: int,
    n_features: tuple[int, int],
    *,
    is_protected: bool,
    use_source: bool,
    cross_fit: bool,
) -> None:
    """Refuse a target that lacks the features of the source, labels of every class, or rows."""
    are_common = n_features[0] == n_features[1]
    if is_protected:
        if not are_common:
            raise InvalidInputError(
                "protect_target=True needs source and target with the same features. Got "
                f"{n_features[0]} and {n_features[1]} features."
            )
    elif not (use_source and are_common):
        require_every_class(codes, n_classes, "a start without the source")
    elif len(codes) == 1 and codes[0] < 0 and cross_fit:
        raise InvalidInputError(
            "The target is one row without a label; with 'cross_fit' no row is labelled by "
            "itself. Give at least two rows."
        )


def autoencoder_parameters(estimator: Any, *, n_layers: int, center: bool) -> dict[str, Any]:
    """Return the parameters of all autoencoders of a transfer."""
    shared = ("inducing_ratio", "kappa", "n_jobs", "verbose")
    return {
        "n_layers": n_layers,
        "center": center,
        "dtype": "float32",
        **{name: getattr(estimator, name) for name in shared},
    }


def earned_weight(answers: Codes, codes: Codes) -> float:
    """``max(0, 2a - 1)² / 4``, a the share of rows that a source and the target label alike."""
    return MAX_WEIGHT * max(0.0, 2 * float(np.mean(answers == codes)) - 1) ** 2


def voter(terms: dict[str, Array]) -> str:
    """The term that is heard beside the target's."""
    return "source_to_target" if "source_to_target" in terms else "source"


def standardised(errors: Array) -> Array:
    """Errors of each row less their mean over the classes, by their standard deviation."""
    finite = np.isfinite(errors)
    worst = np.where(finite, errors, -np.inf).max(axis=1, keepdims=True)
    filled = np.where(finite, errors, worst)
    away = filled - filled.mean(axis=1, keepdims=True)
    spread = away.std(axis=1, keepdims=True)
    return np.asarray(away / np.where(spread > 0, spread, 1.0))
