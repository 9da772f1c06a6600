"""The report of an audit: what was promised, what was certified, what an attacker would learn."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from sfumato.audit.attacks import DIAGNOSTIC, MembershipAttack
from sfumato.audit.empirical import EmpiricalEpsilon
from sfumato.audit.membership import MembershipScore
from sfumato.privacy.guarantee import Guarantee
from sfumato.report import charts
from sfumato.report.pages import render, write_form

BINS = 40
REFUTES_ONLY = "An audit can refute a guarantee; if it finds nothing, that proves nothing."


@dataclass(frozen=True)
class TwoPoint:
    """What an audit of a private estimator on two neighbours has found.

    guarantee: What the estimator promises.
    bound: What was certified.
    leak: What the taint test says: None if nothing after the releases reads the rows.
    """

    guarantee: Guarantee
    bound: EmpiricalEpsilon
    leak: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return the findings as plain JSON values."""
        return {**self.bound.to_dict(), "leak": self.leak}


@dataclass(frozen=True)
class AuditReport:
    """What an audit has found; every part is optional.

    Parameters
    ----------
    title : str
        What was audited.
    guarantee : Guarantee, optional
        What is promised.
    two_point : TwoPoint, optional
        The lower bound on epsilon from two neighbours.
    score : MembershipScore, optional
        Equation (69).
    attack : MembershipAttack, optional
        The threshold attack.
    when : datetime
        With a time zone; by default now.
    """

    title: str
    guarantee: Guarantee | None = None
    two_point: TwoPoint | None = None
    score: MembershipScore | None = None
    attack: MembershipAttack | None = None
    when: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __str__(self) -> str:
        return "\n".join([self.title, self.verdict, *self.notes])

    @property
    def consistent(self) -> bool | None:
        """Whether what was certified fits what is promised; None where nothing was certified."""
        if self.two_point is None:
            return None
        return not self.two_point.bound.refutes and self.leak is None

    @property
    def leak(self) -> str | None:
        """What the taint test says of computations after the releases; None if nothing."""
        return None if self.two_point is None else self.two_point.leak

    @property
    def verdict(self) -> str:
        """One sentence for a reader in a hurry."""
        if self.consistent is None:
            return "No guarantee was tested; the figures say what an attacker would learn."
        if self.consistent:
            return f"Nothing contradicts the guarantee. {REFUTES_ONLY}"
        if self.leak is not None:
            return f"The guarantee is BROKEN: {self.leak}"
        return "The guarantee is BROKEN: more epsilon was certified than promised."

    @property
    def figures(self) -> dict[str, float]:
        """The numbers worth a table."""
        found: dict[str, float] = {}
        if self.two_point is not None:
            bound = self.two_point.bound
            if bound.claimed is not None:
                found["epsilon promised"] = bound.claimed
            how = ", by the Gaussian conversion" if bound.method == "gaussian" else ""
            found[f"epsilon certified at least{how}"] = bound.epsilon
            found[f"epsilon that {bound.n_runs} runs could certify{how}"] = bound.largest
        if self.score is not None:
            found[f"membership score, per unit of {self.score.observation}"] = self.score.value
        if self.attack is not None:
            found["AUC of the threshold attack"] = self.attack.auc.value
            for rate, estimate in self.attack.true_positive_rates.items():
                found[f"true positive rate at false positive rate {rate:g}"] = estimate.value
        return found

    @property
    def notes(self) -> list[str]:
        """Every finding as a sentence."""
        bound = None if self.two_point is None else self.two_point.bound
        parts = (bound, self.score, self.attack)
        sentences = [str(part).removesuffix(DIAGNOSTIC).strip() for part in parts if part]
        measured = self.score or self.attack
        return [*sentences, DIAGNOSTIC] if measured else sentences

    def to_dict(self) -> dict[str, Any]:
        """Return all findings as plain JSON values.

        Returns
        -------
        dict
            Plain values.
        """
        rocs = []
        if self.attack is not None:  # a few hundred points, dense where false alarms are few
            last = len(self.attack.curve[0]) - 1
            spread = np.concatenate([np.linspace(0, last, 200), np.geomspace(1, last, 100)])
            places = np.unique(np.append(0, spread.astype(int)))
            false, true = (rate[places].tolist() for rate in self.attack.curve)
            name = f"threshold on {self.attack.observation}"
            rocs.append({"name": name, "false_positive_rate": false, "true_positive_rate": true})
        histograms = []
        if self.score is not None:  # among members and others, as in the paper's Figure 13
            sides = {"members": self.score.members, "non_members": self.score.non_members}
            low, high = np.quantile(np.concatenate([*sides.values()]), [0.001, 0.999])
            edges = np.linspace(low, high if high > low else low + 1, BINS + 1)
            counts = {
                name: np.histogram(np.clip(side, edges[0], edges[-1]), edges)[0].tolist()
                for name, side in sides.items()
            }
            histograms = [{"name": self.score.observation, "edges": edges.tolist(), **counts}]
        parts = {
            "guarantee": self.guarantee,
            "two_point": self.two_point,
            "membership_score": self.score,
            "membership_attack": self.attack,
        }
        return {
            "title": self.title,
            "when": self.when.isoformat(),
            "verdict": self.verdict,
            "consistent": self.consistent,
            "figures": {k: v if np.isfinite(v) else str(v) for k, v in self.figures.items()},
            "rocs": rocs,
            "histograms": histograms,
            "notes": self.notes,
            **{name: part.to_dict() for name, part in parts.items() if part is not None},
        }

    def to_json(self) -> str:
        """Return the report as JSON.

        Returns
        -------
        str
            The text.
        """
        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"

    def to_html(self) -> str:
        """Return the report as one self-contained page: no script, no network, light and dark.

        Returns
        -------
        str
            The page.
        """
        told = self.to_dict()
        drawn = {name: told[name] for name in ("histograms", "rocs")}
        return render("audit.html", title=self.title, audit=self, draw=charts, **drawn)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the report, in the form that the suffix names: .html or .json.

        Parameters
        ----------
        path : path-like
            The file to write; its suffix names the form.
        """
        write_form(path, {".html": self.to_html, ".json": self.to_json})
