"""A released function that is asked point by point, for ever, and never contradicts itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.accounting.receipt import Chargeable
from sfumato.exceptions import InvalidInputError, StoredModelError
from sfumato.functions.domain import Domain, Key
from sfumato.functions.features import FeatureMap, Function
from sfumato.functions.maps import features_from_dict
from sfumato.functions.rules import DenseRule, FeatureRule, MarkovRule, Rule
from sfumato.functions.store import AnswerBook, AnswerStore
from sfumato.guarantee import Status
from sfumato.kernels import ExponentialKernel, Kernel, kernel_from_dict
from sfumato.mechanisms import GaussianProcessMechanism
from sfumato.mechanisms.base import noise_status
from sfumato.storage.databases import fork_safe_lock
from sfumato.tables.bounds import Bounds

__all__ = ["OnlineFunction"]

Array = NDArray[np.float64]
MOST_ANSWERS = 2**30
Store = str | os.PathLike[str]


class OnlineFunction:
    """``f~(x)``, asked one point at a time; made by `release_function` with ``form="online"``.

    Points are rounded to the nearest of ``2**20 + 1`` equally spaced public points along each axis
    of the domain, and each of these has one answer for ever. With a store, the answer is
    on disk before it is given, so that a crash, a restart or another process cannot change it.

    Parameters
    ----------
    header : dict
        The public description of the release.
    function : callable or None
        The raw function, kept in the memory of the curator's process and nowhere else. None for a
        release by features, which needs it no longer.
    book : AnswerBook or None
        Where answers are kept; None keeps them in the memory of this process.

    Notes
    -----
    By features, or with the exponential kernel on a line, any number of points is answered; with
    other kernels at most 4096, since each answer needs all those before it (70 MB of memory and
    about a second to open a store again).

    This object is the curator's: it holds the raw function. It cannot be pickled, copied to
    another process or saved as a model. What may be given away are its answers.
    """

    def __init__(
        self, header: dict[str, Any], function: Function | None, book: AnswerBook | None
    ) -> None:
        bounds = Bounds(lower=header["lower"], upper=header["upper"])
        self.domain = Domain(bounds, len(header["lower"]), bits=header["bits"])
        self.status = Status(header["status"])
        self._new_rule = _rule_maker(header, function, self.domain)
        self._draws = "coordinates" not in header  # else all noise was drawn at the start
        self._book = book
        self._process = os.getpid()
        self._known: dict[Key, float] = {}
        self._rule: Rule | None = None

    @classmethod
    def begin(
        cls,
        function: Function,
        *,
        kernel: Kernel,
        mechanism: GaussianProcessMechanism,
        domain: Domain,
        features: FeatureMap | None,
        ledger: Chargeable | None,
        store: Store | None,
        name: str | None,
    ) -> OnlineFunction:
        """Charge the ledger once and write the release down; see `release_function`.

        Parameters
        ----------
        function : callable
            The function that is to be released; takes rows.
        kernel : Kernel
            The kernel in whose norm the sensitivity is stated.
        mechanism : GaussianProcessMechanism
            The noise.
        domain : Domain
            Where points may lie.
        features : FeatureMap or None
            Coordinates that are released at the start.
        ledger : DatasetBudget, Receipt or None
            Who pays; None if nothing records the charge.
        store : Store or None
            Where answers are kept.
        name : str or None
            The name of the release in the store.
        """
        if features is not None:
            features.require_kernel(kernel, function)
        answers = None if store is None else AnswerStore(store)
        if answers is not None:
            answers.require_new(name or "")
        header = {
            "kernel": kernel.to_dict(),
            "lower": domain.lower.tolist(),
            "upper": domain.upper.tolist(),
            "bits": domain.bits,
            "sensitivity": mechanism.sensitivity,
            "noise_multiplier": mechanism.noise_multiplier,
            "status": str(noise_status()),
        }
        if features is None:
            mechanism.charge_once(ledger)
        else:
            coordinates = mechanism.release(features.coordinates(function), ledger=ledger)
            header |= {"features": features.to_dict(), "coordinates": coordinates}
        book = None if answers is None else answers.create(name or "", header)
        return cls(header, None if features is not None else function, book)

    @classmethod
    def resume(cls, function: Function | None, *, store: Store, name: str) -> OnlineFunction:
        """Go on with a release that a store holds; it was charged when it began.

        Parameters
        ----------
        function : callable or None
            The same raw function as at the start: a function of other data is another release,
            with a name and a charge of its own. A release by features needs none.
        store : str or Path
            Where the release is kept.
        name : str
            Its name.
        """
        book = AnswerStore(store).open(name)
        header = book.header()
        if function is None and "coordinates" not in header:
            raise InvalidInputError("'function' is needed to answer new points of this release.")
        return cls(header, function, book)

    def __call__(self, X: ArrayLike) -> Array:
        """Answer each row of `X`; a point asked before gets the answer it got before."""
        keys = self.domain.keys(X)
        with fork_safe_lock:
            if any(key not in self._known for key in keys):
                self._answer_new(keys)
            return np.array([self._known[key] for key in keys])

    def __len__(self) -> int:
        """Number of different points answered, as far as this process knows."""
        return len(self._known)

    def _answer_new(self, keys: list[Key]) -> None:
        try:
            if self._book is None:
                self._refuse_other_process()
                self._known |= self._answered(keys)
                return
            fresh: dict[Key, float] = {}

            def answer(told: list[tuple[Key, float]]) -> tuple[list[tuple[Key, float]], bool]:
                self._take_in(told)
                fresh.update(self._answered(keys))
                return list(fresh.items()), self._from_seed(fresh)

            if self._book.extend(answer):  # here, or in another process
                self.status = Status.TESTING
            self._known |= fresh
        except BaseException:
            self._forget()
            raise

    def _answered(self, keys: list[Key]) -> dict[Key, float]:
        new = list(dict.fromkeys(key for key in keys if key not in self._known))
        if len(self._known) + len(new) > MOST_ANSWERS:
            raise InvalidInputError(f"A release gives at most {MOST_ANSWERS} answers.")
        if self._from_seed(new):
            self.status = Status.TESTING
        return dict(zip(new, self._current_rule().answer(new), strict=True)) if new else {}

    def _from_seed(self, new: Collection[Key]) -> bool:
        return bool(new) and self._draws and noise_status() is Status.TESTING

    def _take_in(self, told: list[tuple[Key, float]]) -> None:
        if told:
            self._current_rule().learn(*map(list, zip(*told, strict=True)))
            self._known |= dict(told)

    def _current_rule(self) -> Rule:
        """Give the rule, made anew from the answers that were given if it was lost."""
        if self._rule is None:
            rule = self._new_rule()
            if self._known:
                rule.learn(list(self._known), list(self._known.values()))
            self._rule = rule
        return self._rule

    def _forget(self) -> None:
        """Drop what may hold answers that were never given, because a question failed half-way."""
        self._rule = None
        if self._book is not None:
            self._known = {}
            self._book.forget()

    def _refuse_other_process(self) -> None:
        if os.getpid() != self._process:
            raise StoredModelError(
                "An online release without a store belongs to the process that made it; a forked "
                "child would draw other answers. Give it a store: store='answers.db'."
            )

    def __reduce__(self) -> NoReturn:
        raise StoredModelError(
            "An online release contains the raw function and cannot be pickled or copied. Give "
            "it a store, and OnlineFunction.resume it elsewhere."
        )

    def __repr__(self) -> str:
        return f"OnlineFunction({len(self)} answers, {self.domain.n_features} axes)"


def _rule_maker(
    header: dict[str, Any], function: Function | None, domain: Domain
) -> Callable[[], Rule]:
    kernel = kernel_from_dict(header["kernel"])
    mechanism = GaussianProcessMechanism(header["sensitivity"], header["noise_multiplier"])
    noise = mechanism.noise(limit=MOST_ANSWERS)
    if "coordinates" in header:
        coordinates = np.asarray(header["coordinates"], dtype=np.float64)
        features = features_from_dict(header["features"])
        return lambda: FeatureRule(features, coordinates, domain)
    if function is None:
        raise InvalidInputError("'function' is needed to answer new points of this release.")
    if isinstance(kernel, ExponentialKernel) and domain.n_features == 1:
        return lambda: MarkovRule(function, domain, kernel, noise)
    return lambda: DenseRule(function, domain, kernel, noise)
