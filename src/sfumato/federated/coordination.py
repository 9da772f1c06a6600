"""The coordinator's side of a task, whatever engine carries the messages.

An engine gives one function, ``ask(request) -> replies``. Replies may be missing (a party is
away), refused (it said no) or useless; a round goes on with the others and says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sfumato.accounting.parallel import parallel
from sfumato.exceptions import FederationError, SfumatoError
from sfumato.federated.hulls import HullTask, received_model
from sfumato.federated.linear import LinearTask
from sfumato.federated.messages import Reply, Request, promised_in
from sfumato.guarantee import Guarantee

__all__ = ["ONE_PARTY_EACH", "FederatedResult", "Round", "run_task"]

Ask = Callable[[Request], list[Reply]]
Task = HullTask | LinearTask
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
    task: Task, ask: Ask, *, min_parties: int = 1, conditions: tuple[str, ...] = ()
) -> FederatedResult:
    """Run all rounds of a task and make the global model.

    task: What is learned.
    ask: Carries a request to all parties and gives what came back.
    min_parties: With fewer usable replies a round fails with `FederationError`.
    conditions: What else must hold for the promises, such as how a simulation dealt its rows.
    """
    rounds: list[Round] = []

    def ask_usable(request: Request, check: Callable[[Reply], Any]) -> list[Reply]:
        start = time.monotonic()
        usable, refused = _sorted_out(ask(request), check)
        seconds = time.monotonic() - start
        answered = tuple(reply.party for reply in usable)
        rounds.append(Round(request.phase, answered, refused, seconds))
        if len(usable) < min_parties:
            raise FederationError(
                f"Round '{request.phase}': {len(usable)} of at least {min_parties} parties gave a "
                f"usable reply. {rounds[-1]}"
            )
        return usable

    model, guarantees = (
        _run_hulls(task, ask, ask_usable)
        if isinstance(task, HullTask)
        else _run_linear(task, ask_usable)
    )
    guarantees = {name: each.only_if(*conditions) for name, each in guarantees.items()}
    total = parallel(*guarantees.values(), condition=ONE_PARTY_EACH)
    if hasattr(model, "guarantee_"):
        model.guarantee_ = total
    return FederatedResult(model, guarantees, total, tuple(rounds))


def _run_hulls(task: HullTask, ask: Ask, ask_usable: Any) -> tuple[Any, dict[str, Guarantee]]:
    def check(reply: Reply) -> None:
        promised_in(reply, task.estimator)
        if task.serve == "models":
            received_model(reply, task.estimator)
        else:
            reply.fact("classes")

    replies = ask_usable(task.request(), check)
    model = task.combine(replies, lambda request: _answered(ask(request)))
    return model, {r.party: Guarantee.from_dict(r.fact("guarantee")) for r in replies}


def _run_linear(task: LinearTask, ask_usable: Any) -> tuple[Any, dict[str, Guarantee]]:
    subspaces = ask_usable(task.subspace_request(), task.check_subspace)  # phase 1
    basis = task.basis(subspaces)
    replies = ask_usable(task.classifier_request(basis), task.check_classifier)  # phase 2
    model = task.average(replies)
    return model, task.guarantees(subspaces, replies)


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
