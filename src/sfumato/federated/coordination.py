"""The coordinator's side of a task, whatever engine carries the messages.

An engine gives one function, ``ask(request) -> replies``. Replies may be missing (a party is
away), refused (it said no) or useless; a round goes on with the others and says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sfumato.exceptions import FederationError, SfumatoError
from sfumato.federated.hulls import HullTask, received_model
from sfumato.federated.messages import Reply, Request, promised_in
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.parallel import parallel

Ask = Callable[[Request], list[Reply]]
ONE_PARTY_EACH = "each person has records at one party only"


@dataclass(frozen=True)
class Round:
    """One round: what was asked, who answered, who did not and why, and how long it took."""

    phase: str
    answered: tuple[str, ...]
    refused: dict[str, str]
    seconds: float

    def __str__(self) -> str:
        words = [f"{self.phase}: {len(self.answered)} answered in {self.seconds:.1f} s"]
        return "; ".join(words + [f"without {name}: {why}" for name, why in self.refused.items()])


@dataclass(frozen=True)
class FederatedResult:
    """What a federated task gives.

    Parameters
    ----------
    model : estimator
        The global one.
    guarantees : dict of str to Guarantee
        What each party's releases promise.
    total : Guarantee
        What they promise together, where each person has records at one party only.
    rounds : tuple of Round
        What happened.
    """

    model: Any
    guarantees: dict[str, Guarantee]
    total: Guarantee
    rounds: tuple[Round, ...] = field(default=(), repr=False)


def run_task(
    task: HullTask, ask: Ask, *, min_parties: int = 1, conditions: tuple[str, ...] = ()
) -> FederatedResult:
    """Run a task and make the global model."""

    def check(reply: Reply) -> None:
        promised_in(reply, task.estimator)
        if task.serve == "models":
            received_model(reply, task.estimator)
        else:
            reply.fact("classes")

    request, start = task.request(), time.monotonic()
    usable, refused = _sorted_out(ask(request), check)
    answered = tuple(reply.party for reply in usable)
    done = Round(request.phase, answered, refused, time.monotonic() - start)
    if len(usable) < min_parties:
        raise FederationError(
            f"Round '{request.phase}': {len(usable)} of at least {min_parties} parties gave a "
            f"usable reply. {done}"
        )
    model: Any = task.combine(usable, lambda request: _answered(ask(request)))
    guarantees = {
        reply.party: Guarantee.from_dict(reply.fact("guarantee")).only_if(*conditions)
        for reply in usable
    }
    total = parallel(*guarantees.values(), condition=ONE_PARTY_EACH)
    if hasattr(model, "guarantee_"):
        model.guarantee_ = total
    return FederatedResult(model, guarantees, total, (done,))


def _sorted_out(
    replies: Sequence[Reply], check: Callable[[Reply], Any]
) -> tuple[list[Reply], dict[str, str]]:
    """Part usable replies from refusals and from what cannot be used."""
    usable: list[Reply] = []
    refused: dict[str, str] = {}
    for reply in _named_apart(replies):
        if reply.refusal is not None:
            refused[reply.party] = reply.refusal
            continue
        try:
            check(reply)
        except SfumatoError as error:
            refused[reply.party] = f"useless reply: {error}"
        except (AttributeError, KeyError, TypeError, ValueError):
            refused[reply.party] = "useless reply: its facts cannot be read."
        else:
            usable.append(reply)
    return usable, refused


def _named_apart(replies: Sequence[Reply]) -> list[Reply]:
    """Sort replies by name; a name that a second party uses too gets a number."""
    found: dict[str, Reply] = {}
    for reply in sorted(replies, key=lambda each: each.party):
        name, number = reply.party, 1
        while name in found:
            number += 1
            name = f"{reply.party} #{number}"
        found[name] = replace(reply, party=name)
    return list(found.values())


def _answered(replies: Sequence[Reply]) -> list[Reply]:
    usable = [reply for reply in replies if reply.refusal is None]
    if not usable:
        raise FederationError("No party answered the query.")
    return usable
