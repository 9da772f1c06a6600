"""What a certificate says: the promise, its noise, what was public, the code, the ledger."""

from __future__ import annotations

import hashlib
import hmac
import math
import os
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

from sfumato.accounting.composition import epsilon_spent, explained_by_events
from sfumato.accounting.dataset_budget import DatasetBudget
from sfumato.accounting.distributions import pld_curve, unnamed
from sfumato.accounting.gaussian import delta_from_mu
from sfumato.certificates.subjects import promise_in, subject_of
from sfumato.events import GaussianEvent, flatten
from sfumato.exceptions import InvalidInputError
from sfumato.guarantee import Guarantee
from sfumato.storage.container import running_version

__all__ = ["FORMAT", "FORMAT_VERSION", "certificate_of", "code_fingerprint", "data_fingerprint"]

FORMAT = "sfumato-certificate"
FORMAT_VERSION = 1
CURVE_POINTS = 13
SHORTEST_KEY = 32
OTHERS = "of another program"
FOREIGN = (
    "the program that made the file released what the events say, and drew their noise rightly"
)


def certificate_of(
    file: str | os.PathLike[str],
    *,
    budget: DatasetBudget | None = None,
    purpose: str | None = None,
    by: str | None = None,
    data: str | os.PathLike[str] | None = None,
    data_key: bytes | None = None,
    guarantee: Guarantee | None = None,
) -> dict[str, Any]:
    """Gather the content of a certificate; it is not signed yet.

    Parameters
    ----------
    file : path-like
        A model, or a fabricated table.
    budget : DatasetBudget, optional
        The budget that paid; its head and figures are part of the certificate.
    purpose, by : str, optional
        What the file is for and who asked; by default as in the last charge of the budget that
        holds the events of the file.
    data : path-like, optional
        The file of records, for a fingerprint under `data_key`.
    data_key : bytes, optional
        The owner's secret, 32 bytes at least. A fingerprint without a key would tell neighbours
        apart and is not offered.
    guarantee : Guarantee, optional
        For a file of another program: its promise, whose events a charge of `budget` paid for. The
        certificate then holds only if that program drew the noise as charged.

    Returns
    -------
    dict
        Plain JSON values, for `signed`.
    """
    by_another_program = guarantee is not None
    if guarantee is None:
        promise = promise_in(file)
        guarantee = Guarantee.from_dict(promise["guarantee"])
    else:
        promise, guarantee = _foreign(file, budget, guarantee)
    ledger, charge = _ledger(budget, guarantee)
    plain = guarantee.to_dict()
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "issued": datetime.now(UTC).isoformat(timespec="seconds"),
        "subject": {
            **subject_of(file, by_another_program=by_another_program),
            "class": promise["class"],
        },
        **{name: plain[name] for name in ("unit", "relation", "status", "epsilon", "delta")},
        "statement": plain["sentence"],
        "attacker": guarantee.attacker.to_dict(),
        "loss_curve": _curve(guarantee),
        "events": plain["events"],
        "public": plain["public"],
        "bounds": promise["bounds"],
        "conditions": plain["conditions"],
        "entry_bound": plain["entry_bound"],
        "software": {
            "name": "sfumato",
            "version": running_version(),
            "code_sha256": code_fingerprint(),
        },
        "data": None if data is None else data_fingerprint(data, data_key),
        "ledger": ledger,
        "purpose": purpose or charge.get("purpose"),
        "by": by or charge.get("by"),
    }


def _foreign(
    file: str | os.PathLike[str], budget: DatasetBudget | None, guarantee: Guarantee
) -> tuple[dict[str, Any], Guarantee]:
    """Give the promise of a file that Sfumato did not make: conditional, and paid for."""
    if not Path(file).is_file():
        raise InvalidInputError(f"There is no file '{file}'.")
    if budget is None:
        raise InvalidInputError("'budget' is needed with 'guarantee': the ledger that paid for it.")
    spent = epsilon_spent(guarantee.events, guarantee.delta, guarantee.relation)
    if guarantee.epsilon is None or guarantee.epsilon < spent * (1 - 1e-9):
        raise InvalidInputError(
            f"'guarantee' promises epsilon {guarantee.epsilon}, and its events cost {spent:.6g} at "
            f"delta {guarantee.delta:g}."
        )
    return {"class": OTHERS, "bounds": None}, guarantee.only_if(FOREIGN)


def _ledger(
    budget: DatasetBudget | None, guarantee: Guarantee
) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Give what the ledger says now, and the charge that paid for these events."""
    if budget is None:
        return None, {}
    paid = [each for each in budget.history() if flatten(each.events) == flatten(guarantee.events)]
    if not paid:
        raise InvalidInputError(
            f"The budget of '{budget.name}' has no charge for the releases of this file. Give the "
            "ledger that paid for it, or none."
        )
    statement, last = budget.statement(), paid[-1]
    return {
        "dataset": budget.name,
        "budget_epsilon": statement.budget.epsilon,
        "budget_delta": statement.budget.delta,
        "spent": statement.spent,
        "charges": statement.charges,
        "head": statement.head,
        "charged_at": last.time,
        "charge_hash": last.hash,
    }, {"purpose": last.purpose, "by": last.by}


def _curve(guarantee: Guarantee) -> list[dict[str, float]]:
    """Give points of delta against epsilon, none below the truth; none where nothing is known."""
    if guarantee.epsilon is None or not math.isfinite(guarantee.epsilon):
        return []
    stated = {"epsilon": guarantee.epsilon, "delta": guarantee.delta}
    if not explained_by_events(guarantee):
        return [stated]
    counts = unnamed(flatten(guarantee.events))
    curve: Callable[[float], float]
    if all(isinstance(event, GaussianEvent) for event in counts):
        squares = math.fsum(n / e.noise_multiplier**2 for e, n in counts.items())  # type: ignore[attr-defined]
        curve = partial(delta_from_mu, math.sqrt(squares) * (1 + 1e-12))
    else:
        curve = pld_curve(counts)
    steps = [2 * guarantee.epsilon * i / (CURVE_POINTS - 1) for i in range(CURVE_POINTS)]
    points = [{"epsilon": each, "delta": float(curve(each))} for each in steps]
    return sorted([*points, stated], key=lambda point: point["epsilon"])


@cache
def code_fingerprint() -> str:
    """Hash the source of the package that runs: every Python file, its place and its bytes."""
    root, found = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        found.update(f"{path.relative_to(root).as_posix()}\n".encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def data_fingerprint(data: str | os.PathLike[str], key: bytes | None) -> dict[str, str]:
    """Give the HMAC of a file of records under the owner's key.

    data: The file.
    key: The secret.
    Returns: The algorithm and the value.
    """
    if key is None or len(key) < SHORTEST_KEY:
        raise InvalidInputError(
            f"'data_key' must be a secret of at least {SHORTEST_KEY} bytes: a fingerprint without "
            "one tells anybody who guesses a record whether the guess is right."
        )
    value = hmac.new(key, Path(data).read_bytes(), hashlib.sha256).hexdigest()
    return {"algorithm": "HMAC-SHA256", "value": value}
