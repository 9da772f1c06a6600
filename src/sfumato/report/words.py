"""Words and numbers of a report."""

from __future__ import annotations

import math

from sfumato.privacy.attacker import in_thousand, percent
from sfumato.privacy.events import flatten
from sfumato.privacy.guarantee import Guarantee, Relation, Unit, rounded_up

RAW = "Sensitive: measured on raw rows, covered by no guarantee. Not for release."
LIMITS = (
    "What is true of everybody. If smoking is harmful, a private study finds that it is, and that"
    " says something about every smoker, in the data or not.",
    "Groups. The guarantee is for one record or, where it says so, for one person with all rows. "
    "For k of them together, such as a family, or k records of one patient where records are "
    "protected, epsilon is k times as large or, at the same delta, larger still.",
    "Facts that were assumed to be public: the bounds, the labels, the columns, and whatever "
    "else is listed under a guarantee.",
    "Other releases. What was published from the same rows without the ledger adds to the cost, "
    "and nothing counts it.",
    "The rows themselves, where they are stored, and everything that is marked as sensitive here.",
    "What delta allows. The probability of any one outcome may change by delta beyond the factor, "
    "and the factor itself is exceeded more often than with probability delta; each guarantee "
    "says how often.",
)
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float | None, form: str = ".4g") -> str:
    """Return one number to four digits; infinity as ∞, a gap as a dash."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return format(value, form).replace("-", "−")


def at_epsilon(guarantee: Guarantee) -> str:
    """Return the words that tell results of one name apart."""
    epsilon = guarantee.epsilon
    return "" if epsilon is None or math.isinf(epsilon) else f" at epsilon {at_most(epsilon)}"


def at_most(value: float | None) -> str:
    """Return a promised number to four digits, none of them too small."""
    return number(value) if value is None or math.isinf(value) else rounded_up(value, 4)


def scientific(value: float, digits: int = 3) -> str:
    """Write a small probability, never too small a one: 1e-05 as 10⁻⁵."""
    mantissa, _, exponent = rounded_up(value, digits).partition("e")
    if not exponent:
        return mantissa
    power = "10" + str(int(exponent)).translate(_SUPERSCRIPTS)
    return power if mantissa == "1" else f"{mantissa}\u00a0×\u00a0{power}"


def facts(guarantee: Guarantee) -> list[tuple[str, str]]:
    """Return the figures of a guarantee as pairs of name and text."""
    epsilon = "none proved" if guarantee.epsilon is None else at_most(guarantee.epsilon)
    found = [("Epsilon", epsilon)]
    if guarantee.claimed_epsilon is not None:
        found.append(("Epsilon as printed, not proved", number(guarantee.claimed_epsilon)))
    found += [("Delta", scientific(guarantee.delta)), ("Protects", protected_unit(guarantee))]
    found.append(("Neighbouring data sets", relation_words(guarantee)))
    reading = guarantee.record_reading
    if reading is not None:
        found.append(
            (
                f"For a whole record of {reading.n_entries} numbers",
                f"epsilon {at_most(reading.epsilon)}, delta {scientific(reading.delta)}",
            )
        )
    if guarantee.is_private:  # what the best attacker can do
        best = guarantee.attacker
        right = f"right at most {percent(best.guesses_right)} of the time; a coin is right 50 %"
        found.append(("Best attacker, from even odds", right))
        outside = f"If {in_thousand(best.false_alarms)} outside the data may be accused wrongly"
        inside = f"at most {in_thousand(best.finds)} inside it are accused correctly"
        found.append((outside, inside))
        found += loss_facts(guarantee)
    return [*found, ("Status", standing(guarantee))]


def loss_facts(guarantee: Guarantee) -> list[tuple[str, str]]:
    """Return how often the privacy loss is above epsilon, where that is stated."""
    exceeds = guarantee.attacker.loss_exceeds if guarantee.is_private else None
    if exceeds is None:
        return []
    told = scientific(exceeds * (1 - 2e-11), 2)  # by so much it was enlarged
    return [("Privacy loss above epsilon", f"probability at most {told}")]


def standing(guarantee: Guarantee) -> str:
    """Return the status in a word; an infinite epsilon is never called proved."""
    infinite = guarantee.epsilon is not None and math.isinf(guarantee.epsilon)
    return "no privacy" if infinite else str(guarantee.status)


RELATIONS = {
    Relation.REPLACE_ONE: "one record replaced; the number of records is public",
    Relation.ADD_OR_REMOVE_ONE: "one record added or removed",
}


def relation_words(guarantee: Guarantee) -> str:
    """Return which data sets count as neighbours."""
    words = RELATIONS[guarantee.relation]
    return words.replace("record", "person") if guarantee.unit is Unit.PERSON else words


def protected_unit(guarantee: Guarantee) -> str:
    """Return what one change may touch."""
    if guarantee.unit is Unit.ENTRY:
        if guarantee.whole_range:
            return "one number of one record, within its public range"
        return (
            f"one number of one record, up to a change of {guarantee.entry_bound:g} in the units "
            "of the rows"
        )
    if guarantee.unit is Unit.PERSON:
        return "one person, with all rows"
    return "one whole record"


def event_rows(guarantee: Guarantee) -> list[tuple[str, str, str]]:
    """Return kind, parameters and count of every different event."""
    rows = []
    for event, count in flatten(guarantee.events).items():
        values = {k: v for k, v in event.to_dict().items() if k != "kind"}
        # An entry may have been scaled before it got its noise.
        named = {"entry_bound": "change as noised"}
        told = ", ".join(
            f"{named.get(k, k.replace('_', ' '))} {f'{v:.6g}' if isinstance(v, float) else v}"
            for k, v in values.items()
        )
        rows.append((event.kind.replace("_", " "), told or "–", str(count)))
    return rows
