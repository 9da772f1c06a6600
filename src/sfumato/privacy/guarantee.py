"""The words of the promise: what is protected, against which change, how well, and is it true."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Context
from enum import StrEnum
from html import escape
from typing import TYPE_CHECKING, Any

from sfumato.exceptions import InvalidInputError
from sfumato.privacy.events import Event, event_from_dict

if TYPE_CHECKING:
    from sfumato.privacy.attacker import Attacker


class _Word(StrEnum):
    """A closed set of words; any other word is refused with the list of those that are known."""

    @classmethod
    def _missing_(cls, value: object) -> _Word:
        known = ", ".join(repr(str(word)) for word in cls)
        raise InvalidInputError(
            f"'{cls.__name__.lower()}' must be one of {known}. Got {value!r} instead."
        )


class Unit(_Word):
    """What one change may touch."""

    RECORD = "record"
    ENTRY = "entry"
    PERSON = "person"


class Relation(_Word):
    """Which two data sets count as neighbours."""

    REPLACE_ONE = "replace_one"
    ADD_OR_REMOVE_ONE = "add_or_remove_one"


class Status(_Word):
    """How far the promise can be trusted, best first."""

    PROVED = "proved"
    CONDITIONAL = "conditional"
    TESTING = "testing"
    REFUTED = "refuted"


@dataclass(frozen=True)
class RecordReading:
    """What an entry-level release means for a whole record of `n_entries` numbers.

    Parameters
    ----------
    n_entries : int
        Numbers p of a record that the release touches.
    pure_epsilon : float
        ``p * epsilon``, valid with `atom_probability` as delta.
    epsilon : float
        Tight epsilon of the p releases together (privacy loss distribution) at `delta`.
    delta : float
        The delta at which `epsilon` holds; never below `atom_probability`.
    atom_probability : float
        ``1 - (1 - delta)**p``: chance that at least one number of the record is published exactly.
    """

    n_entries: int
    pure_epsilon: float
    epsilon: float
    delta: float
    atom_probability: float = 0.0


@dataclass(frozen=True)
class Guarantee:
    """A differential-privacy guarantee: ``P(M(D) in O) <= exp(epsilon) P(M(D') in O) + delta``.

    Parameters
    ----------
    epsilon : float or None
        The proved figure; None where nothing is proved (`status` "refuted").
    delta : float, default=0.0
        What is added to the probability of an outcome, beyond the factor.
    unit : Unit or str, default="record"
        "record": one whole row with its label. "entry": one number of one row, changed by at most
        `entry_bound`. "person": all rows of one ID.
    relation : Relation or str, default="replace_one"
        The neighbours D, D'.
    status : Status or str, default="proved"
        "proved", "conditional" (only under `conditions`), "testing" (the noise was seeded),
        "refuted" (as printed, it guarantees nothing).
    claimed_epsilon : float, optional
        The figure printed in the paper, kept where it is not the proved one.
    entry_bound : float, optional
        The largest change d of one entry, in the units of the rows; needed for unit "entry".
    whole_range : bool, default=False
        For unit "entry": any change inside the public range of a number is protected, whatever its
        unit.
    record_reading : RecordReading, optional
        For unit "entry": what the same release means for a whole record.
    public : tuple of str
        What is assumed public.
    conditions : tuple of str
        What must be true for the guarantee to be valid.
    events : tuple of Event
        The releases, without data.
    charges : tuple of str
        Marks of the charges in a ledger that paid for them, by which a report finds them.

    Notes
    -----
    ``a + b`` is basic composition (epsilons and deltas add); `sfumato.privacy.compose` is tighter.

    Delta is not the probability that the factor is exceeded. For Gaussian noise, that probability
    is at most `attacker.loss_exceeds`, at (1, 1e-5) 41 times delta.

    Examples
    --------
    >>> from sfumato import Guarantee
    >>> print(Guarantee(epsilon=1.0, delta=1e-5))  # doctest: +NORMALIZE_WHITESPACE
    Proved: replacing any one record makes no release, nor anything computed from it, more than
    2.72 times as likely (epsilon 1), plus 1e-05 in probability. From even odds, an attacker who
    knows everything else guesses correctly whether a given record is in the data at most 73.2 % of
    the time; a coin is right 50 %. If 10 in 1,000 records outside the data may be accused wrongly,
    at most 28 in 1,000 inside it are accused correctly.

    These are the figures of the worst noise. A guarantee with events has those of its own noise:

    >>> from sfumato.privacy import mu_from_budget
    >>> from sfumato.privacy.events import GaussianEvent
    >>> noise = GaussianEvent(1 / mu_from_budget(1.0, 1e-5))
    >>> round(Guarantee(epsilon=1.0, delta=1e-5, events=(noise,)).attacker.guesses_right, 3)
    0.553
    """

    epsilon: float | None
    delta: float = 0.0
    unit: Unit = Unit.RECORD
    relation: Relation = Relation.REPLACE_ONE
    status: Status = Status.PROVED
    claimed_epsilon: float | None = None
    entry_bound: float | None = None
    whole_range: bool = False
    record_reading: RecordReading | None = None
    public: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    events: tuple[Event, ...] = field(default=(), repr=False)
    charges: tuple[str, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, kind in (("unit", Unit), ("relation", Relation), ("status", Status)):
            object.__setattr__(self, name, kind(getattr(self, name)))
        for name in ("public", "conditions", "events", "charges"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not 0 <= self.delta < 1:
            raise InvalidInputError(f"'delta' must lie in [0, 1). Got {self.delta} instead.")
        if self.status is Status.REFUTED:
            if self.epsilon is not None:
                raise InvalidInputError(
                    "A refuted guarantee has epsilon None; use claimed_epsilon."
                )
        elif self.epsilon is None or not self.epsilon >= 0:
            raise InvalidInputError(f"'epsilon' must be >= 0. Got {self.epsilon} instead.")
        if self.unit is Unit.ENTRY and not 0 < (self.entry_bound or 0.0) < math.inf:
            raise InvalidInputError("A guarantee of unit 'entry' needs a finite 'entry_bound' > 0.")

    @property
    def is_private(self) -> bool:
        """Whether anything finite is promised for a real release."""
        return (
            self.epsilon is not None
            and math.isfinite(self.epsilon)
            and self.status in (Status.PROVED, Status.CONDITIONAL)
        )

    @property
    def attacker(self) -> Attacker:
        """What the best attacker can do at most; see `sfumato.privacy.best_attacker`."""
        from sfumato.privacy.attacker import best_attacker  # here: accounting stands above

        return best_attacker(self)

    def __str__(self) -> str:
        opening = "NO PRIVACY" if _figure(self) == math.inf else _OPENING[self.status]
        if self.epsilon is None:
            claim = "" if self.claimed_epsilon is None else f" (claimed: {self.claimed_epsilon:g})"
            promise = f"refuted as printed, no finite epsilon is proved{claim}. For study only."
        elif math.isinf(self.epsilon):
            promise = "epsilon is infinite; nothing was hidden."
        else:
            factor, epsilon = math.exp(min(self.epsilon, 20)), rounded_up(self.epsilon, 4)
            times = rounded_up(factor, 3) if self.epsilon < 20 else f"exp({epsilon})"
            plus = f", plus {rounded_up(self.delta, 6)} in probability" if self.delta else ""
            promise = (
                f"{self._change()} makes no release, nor anything computed from it, more than "
                f"{times} times as likely (epsilon {epsilon}){plus}."
            )
        parts = [f"{opening}: {promise}"]
        if self.is_private:
            parts.append(self._attack())
        if (reading := self.record_reading) is not None:
            atom = ""
            if reading.atom_probability:
                chance = rounded_up(reading.atom_probability, 2)
                atom = f", and publishes at least one of them exactly with probability {chance}"
            pure = rounded_up(reading.pure_epsilon, 4)
            parts.append(
                f"For a whole record of {reading.n_entries} numbers, each changed as far, the same "
                f"release has epsilon {rounded_up(reading.epsilon, 4)} at delta "
                f"{rounded_up(reading.delta, 3)} (pure: {pure}){atom}."
            )
        if self.conditions:
            parts.append("Only if: " + "; ".join(self.conditions) + ".")
        return " ".join(parts)

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        rows = {
            "Epsilon": "none" if self.epsilon is None else rounded_up(self.epsilon, 4),
            "Delta": rounded_up(self.delta, 6),
            "Protects": f"{self.unit}, {self.relation}",
            "Public": "; ".join(self.public),
        }
        cells = "".join(f"<tr><th>{k}</th><td>{escape(v)}</td></tr>" for k, v in rows.items())
        return f"<p>{escape(str(self))}</p><table>{cells}</table>"

    def _attack(self) -> str:
        from sfumato.privacy.attacker import in_thousand, percent

        figures = self.attacker
        question, outside, inside = asked_of(self.unit)
        return (
            "From even odds, an attacker who knows everything else guesses correctly "
            f"{question} at most {percent(figures.guesses_right)} of the time; a coin is right "
            f"50 %. If {in_thousand(figures.false_alarms)} {outside} may be accused wrongly, at "
            f"most {in_thousand(figures.finds)} {inside} are accused correctly."
        )

    def _change(self) -> str:
        if self.unit is Unit.ENTRY:
            changed = "changing one number of one record"
            if self.whole_range:
                return f"{changed} to any other within its public range"
            return f"{changed} by at most {self.entry_bound:g}, in the units of the rows,"
        one = "any one person, with all rows," if self.unit is Unit.PERSON else "any one record"
        verb = "replacing" if self.relation is Relation.REPLACE_ONE else "adding or removing"
        return f"{verb} {one}"

    def __add__(self, other: Guarantee) -> Guarantee:
        """Compose: both releases on the same data."""
        if not isinstance(other, Guarantee):
            return NotImplemented
        words = ("unit", "relation", "entry_bound", "whole_range")
        if any(getattr(self, word) != getattr(other, word) for word in words):
            raise InvalidInputError(
                "Guarantees of different unit, relation or entry bound do not compose: "
                f"{self.unit}/{self.relation} and {other.unit}/{other.relation}."
            )
        refuted = Status.REFUTED in (self.status, other.status)
        delta = self.delta + other.delta
        epsilon = None if refuted else _figure(self) + _figure(other)
        if delta >= 1 and not refuted:
            epsilon, delta = math.inf, 0.0
        claims, claimed = (self.claimed_epsilon, other.claimed_epsilon), None
        if claims != (None, None):
            figures = _figure(self), _figure(other)
            pairs = zip(claims, figures, strict=True)
            claimed = sum(figure if claim is None else claim for claim, figure in pairs)
        a, b, reading = self.record_reading, other.record_reading, None
        if a is not None and b is not None:  # half an answer would understate the whole
            reading = RecordReading(
                n_entries=max(a.n_entries, b.n_entries),
                pure_epsilon=a.pure_epsilon + b.pure_epsilon,
                epsilon=a.epsilon + b.epsilon,
                delta=min(a.delta + b.delta, 1.0),
                atom_probability=1 - (1 - a.atom_probability) * (1 - b.atom_probability),
            )
        return Guarantee(
            epsilon=epsilon,
            delta=min(delta, math.nextafter(1.0, 0.0)),
            unit=self.unit,
            relation=self.relation,
            status=max(self.status, other.status, key=list(Status).index),
            claimed_epsilon=claimed,
            entry_bound=self.entry_bound,
            whole_range=self.whole_range,
            record_reading=reading,
            public=_union(self.public, other.public),
            conditions=_union(self.conditions, other.conditions),
            events=self.events + other.events,
            charges=_union(self.charges, other.charges),
        )

    def only_if(self, *conditions: str) -> Guarantee:
        """Return the guarantee under further conditions: a proved one becomes conditional.

        Parameters
        ----------
        *conditions : str
            What else must hold.

        Returns
        -------
        Guarantee
            The same figures, never a better status; itself without conditions.
        """
        if not conditions:
            return self
        status = Status.CONDITIONAL if self.status is Status.PROVED else self.status
        return replace(self, status=status, conditions=_union(self.conditions, conditions))

    def to_dict(self) -> dict[str, Any]:
        """Return the guarantee as plain JSON values (infinity as the string "inf").

        Returns
        -------
        dict
            Plain values, which `from_dict` reads.
        """
        reading = self.record_reading
        return {
            "epsilon": _to_json(self.epsilon),
            "delta": self.delta,
            **{name: str(getattr(self, name)) for name in ("unit", "relation", "status")},
            "claimed_epsilon": _to_json(self.claimed_epsilon),
            "entry_bound": self.entry_bound,
            "whole_range": self.whole_range,
            "record_reading": reading and {k: _to_json(v) for k, v in vars(reading).items()},
            "public": list(self.public),
            "conditions": list(self.conditions),
            "events": [event.to_dict() for event in self.events],
            "charges": list(self.charges),
            "sentence": str(self),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Guarantee:
        """Rebuild a guarantee from `to_dict`.

        Parameters
        ----------
        record : mapping
            What `to_dict` gave.
        """
        try:
            values = {k: v for k, v in record.items() if k != "sentence"}
            values["epsilon"] = _from_json(values["epsilon"])
            values["claimed_epsilon"] = _from_json(values.get("claimed_epsilon"))
            if values.get("record_reading") is not None:
                reading = {k: _from_json(v) for k, v in values["record_reading"].items()}
                values["record_reading"] = RecordReading(**reading)
            values["events"] = tuple(event_from_dict(e) for e in values.get("events", ()))
            return cls(**values)
        except (AttributeError, LookupError, TypeError) as error:  # of what was changed by hand
            raise InvalidInputError(
                f"This is not the record of a guarantee: reading it raised {type(error).__name__}."
            ) from None


_OPENING = {
    Status.PROVED: "Proved",
    Status.CONDITIONAL: "CONDITIONAL",
    Status.TESTING: "TESTING, noise was seeded, not for release",
    Status.REFUTED: "NO PRIVACY",
}


def asked_of(unit: Unit) -> tuple[str, str, str]:
    """Return what an attacker asks about a unit, who may be accused wrongly, and who rightly."""
    if unit is Unit.ENTRY:
        return "which of two such values a number has", "unchanged numbers", "changed ones"
    return f"whether a given {unit} is in the data", f"{unit}s outside the data", "inside it"


def rounded_up(value: float, digits: int) -> str:
    """Write a figure no smaller than it is; 0.1 stays 0.1."""
    if not math.isfinite(value):
        return f"{value:g}"
    written = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(float(value)))
    return f"{float(written):.{digits}g}"


def _figure(guarantee: Guarantee) -> float:
    return math.inf if guarantee.epsilon is None else guarantee.epsilon


def _union(a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
    return a + tuple(item for item in b if item not in a)


def _to_json(value: float | None) -> float | str | None:
    return "inf" if value is not None and math.isinf(value) else value


def _from_json(value: float | str | None) -> Any:
    return float(value) if isinstance(value, str) else value
