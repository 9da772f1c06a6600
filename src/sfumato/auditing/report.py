"""The report of an audit: what was promised, what was certified, what an attacker would learn."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from sfumato.auditing.attack import MembershipAttack
from sfumato.auditing.membership import DIAGNOSTIC, MembershipScore
from sfumato.auditing.one_run import OneRun
from sfumato.auditing.reidentification import Reidentification
from sfumato.auditing.two_point import TwoPoint
from sfumato.guarantee import Guarantee
from sfumato.report import svg
from sfumato.report.chart import number
from sfumato.report.parts import Audit
from sfumato.report.report import Report, Result
from sfumato.report.writing import write_form

__all__ = ["AuditReport", "epsilon_bars", "log_roc"]

BINS = 40
REFUTES_ONLY = "An audit can refute a guarantee; if it finds nothing, that proves nothing."


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
    one_run : OneRun, optional
        The lower bound on epsilon from one run.
    score : MembershipScore, optional
        Equation (69).
    attack : MembershipAttack, optional
        The threshold attack.
    matches : Reidentification, optional
        Matching of released rows.
    when : datetime
        With a time zone; by default now.
    """

    title: str
    guarantee: Guarantee | None = None
    two_point: TwoPoint | None = None
    one_run: OneRun | None = None
    score: MembershipScore | None = None
    attack: MembershipAttack | None = None
    matches: Reidentification | None = None
    when: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __str__(self) -> str:
        return "\n".join([self.title, self.verdict, *self.notes])

    @property
    def consistent(self) -> bool | None:
        """Whether what was certified fits what is promised; None where nothing was certified."""
        bounds = [b for b in (self.two_point and self.two_point.bound, self.one_run) if b]
        if not bounds:
            return None
        return not any(bound.refutes for bound in bounds) and self.leak is None

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
        return dict(self._figures())

    def _figures(self) -> Iterator[tuple[str, float]]:
        if self.two_point is not None:
            bound = self.two_point.bound
            if bound.claimed is not None:
                yield "epsilon promised", bound.claimed
            how = ", by the Gaussian conversion" if bound.method == "gaussian" else ""
            yield f"epsilon certified at least{how}", bound.epsilon
            yield f"epsilon that {bound.n_runs} runs could certify{how}", bound.largest
        if self.one_run is not None:
            yield "epsilon certified at least, one run", self.one_run.epsilon
        if self.score is not None:
            yield f"membership score, per unit of {self.score.observation}", self.score.value
        if self.attack is not None:
            yield "AUC of the threshold attack", self.attack.auc.value
            yield "balanced accuracy", self.attack.balanced_accuracy.value
            for rate, found in self.attack.true_positive_rates.items():
                yield f"true positive rate at false positive rate {rate:g}", found.value
        if self.matches is not None:
            yield "share of released rows traced to their source", self.matches.rate.value
            yield "the same by a blind guess", self.matches.chance
            if self.matches.closeness is not None:
                yield "AUC of the closeness attack", self.matches.closeness.auc.value

    @property
    def notes(self) -> list[str]:
        """Every finding as a sentence."""
        bound = None if self.two_point is None else self.two_point.bound
        parts = (bound, self.one_run, self.score, self.attack, self.matches)
        sentences = [str(part).removesuffix(DIAGNOSTIC).strip() for part in parts if part]
        measured = self.score or self.attack or self.matches
        return [*sentences, DIAGNOSTIC] if measured else sentences

    def to_dict(self) -> dict[str, Any]:
        """Give all findings as plain JSON values; `Audit.from_dict` of the report reads them.

        Returns
        -------
        dict
            Plain values.
        """
        parts = {
            "guarantee": self.guarantee,
            "two_point": self.two_point,
            "one_run": self.one_run,
            "membership_score": self.score,
            "membership_attack": self.attack,
            "reidentification": self.matches,
        }
        return {
            "title": self.title,
            "when": self.when.isoformat(),
            "verdict": self.verdict,
            "consistent": self.consistent,
            "figures": {k: v if np.isfinite(v) else str(v) for k, v in self._figures()},
            "rocs": [_roc(attack) for attack in self._attacks()],
            "histograms": [] if self.score is None else [_histogram(self.score)],
            "notes": self.notes,
            **{name: part.to_dict() for name, part in parts.items() if part is not None},
        }

    def _attacks(self) -> list[MembershipAttack]:
        close = None if self.matches is None else self.matches.closeness
        return [attack for attack in (self.attack, close) if attack is not None]

    def to_json(self) -> str:
        """Give the report as JSON.

        Returns
        -------
        str
            The text.
        """
        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"

    def to_markdown(self) -> str:
        """Give the report as Markdown.

        Returns
        -------
        str
            The text.
        """
        rows = [f"| {name} | {number(value)} |" for name, value in self._figures()]
        table = ["| figure | value |", "|---|---:|", *rows, ""] if rows else []
        promise = [] if self.guarantee is None else [f"> {self.guarantee}", ""]
        notes = [f"- {note}" for note in self.notes]
        lines = [f"# {self.title}", "", self.verdict, "", *promise, *table, *notes]
        return "\n".join(lines).rstrip() + "\n"

    def to_html(self) -> str:
        """Give the report as one self-contained page: no script, no network, light and dark.

        Returns
        -------
        str
            The page.
        """
        results = () if self.guarantee is None else (Result(self.title, self.guarantee),)
        whole = Report(
            self.title, results, audit=Audit.from_dict(self.to_dict()), when=self.when
        ).to_html()
        body, next_part, rest = whole.partition('<section aria-labelledby="guarantees">')
        if not next_part:
            body, next_part, rest = whole.rpartition("</main>")
        return body + self._pictures() + next_part + rest

    def _pictures(self) -> str:
        drawn = [log_roc(attack.observation, *_thinned(attack)) for attack in self._attacks()]
        if self.two_point is not None:
            bound = self.two_point.bound
            drawn.append(epsilon_bars(bound.claimed, bound.epsilon, bound.largest, bound.method))
        if not drawn:
            return ""
        figures = "".join(f"<figure>{picture}</figure>" for picture in drawn)
        head = '<h2 id="audit-pictures">Where it matters: low false alarms, and epsilon</h2>'
        return (
            f'<section aria-labelledby="audit-pictures">{head}<div class="gallery">{figures}'
            "</div></section>"
        )

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the report, in the form that the suffix names: .html, .md or .json.

        Parameters
        ----------
        path : path-like
            The file to write; its suffix names the form.
        """
        write_form(path, {".html": self.to_html, ".md": self.to_markdown, ".json": self.to_json})


def _roc(attack: MembershipAttack) -> dict[str, Any]:
    false, true = _thinned(attack)
    return {
        "name": f"threshold on {attack.observation}",
        "false_positive_rate": false,
        "true_positive_rate": true,
    }


def _thinned(attack: MembershipAttack) -> tuple[list[float], list[float]]:
    """Give the curve at a few hundred points, dense where false alarms are few."""
    false, true = attack.curve
    last = len(false) - 1
    spread = np.concatenate([np.linspace(0, last, 200), np.geomspace(1, last, 100)])
    places = np.unique(np.append(0, spread.astype(int)))
    return false[places].tolist(), true[places].tolist()


def _histogram(score: MembershipScore) -> dict[str, Any]:
    """Counts of the observation among members and others, as in the paper's Figure 13."""
    both = np.concatenate([score.members, score.non_members])
    low, high = np.quantile(both, [0.001, 0.999])
    edges = np.linspace(low, high if high > low else low + 1, BINS + 1)
    counts = [
        np.histogram(np.clip(side, edges[0], edges[-1]), edges)[0].tolist()
        for side in (score.members, score.non_members)
    ]
    return {
        "name": score.observation,
        "edges": edges.tolist(),
        "members": counts[0],
        "non_members": counts[1],
    }


# Pictures of an audit as SVG: a ROC curve on logarithmic axes, epsilon promised and certified -----

SIDE = 300.0
LEFT, TOP = 44.0, 22.0


def log_roc(name: str, false: Sequence[float], true: Sequence[float], *, decades: int = 4) -> str:
    """Draw true against false positive rate, both on logarithmic axes; dashed: guessing."""
    least = 10.0**-decades
    bottom, right = TOP + SIDE, LEFT + SIDE

    def place(x: float, y: float) -> str:
        across, up = (1 + math.log10(max(v, least)) / decades for v in (x, y))
        return f"{LEFT + SIDE * across:.1f},{bottom - SIDE * up:.1f}"

    ticks = []
    for power in range(decades + 1):
        at = SIDE * power / decades
        label = number(10.0 ** (power - decades))
        ticks += [
            svg.text(LEFT + at, bottom + 16, label, "tick", anchor="middle"),
            svg.text(LEFT - 6, bottom - at + 4, label, "tick", anchor="end"),
        ]
    corners = " ".join(place(x, y) for x, y in zip(false, true, strict=True) if x >= least or y > 0)
    told = f"{name}: true positive rate against false positive rate, logarithmic axes"
    return "\n".join(
        [
            svg.opening(told, (int(right) + 20, int(bottom) + 40)),
            f'<rect class="frame" x="{LEFT}" y="{TOP}" width="{SIDE}" height="{SIDE}"/>',
            f'<line class="ceiling" x1="{LEFT}" y1="{bottom}" x2="{right}" y2="{TOP}"/>',
            *ticks,
            f'<polyline class="line" points="{corners}"/>',
            svg.text(0, 12, "true positive rate", "axis-name", anchor="start"),
            svg.text(right, bottom + 34, "false positive rate", "axis-name", anchor="end"),
            "</svg>",
        ]
    )


def epsilon_bars(promised: float | None, certified: float, largest: float, method: str) -> str:
    """Draw epsilon promised, certified at least, and the most that could have been certified."""
    bars = [
        ("promised", promised, "bar-outline"),
        ("certified at least", certified, "bar"),
        ("could be certified", largest, "bar-outline"),
    ]
    finite = [value for _, value, _ in bars if value is not None and math.isfinite(value)]
    unit = 190.0 / max(*finite, 1e-9) if len(finite) > 1 else 190.0
    parts = []
    for i, (name, value, style) in enumerate(bars):
        if value is None:
            continue
        y = 26.0 + 30 * i
        width = unit * min(value, max(finite, default=1.0))
        parts += [
            svg.text(118, y + 14, name, "tick", anchor="end"),
            f'<rect class="{style}" x="126" y="{y}" width="{width:.1f}" height="18"/>',
            svg.text(132 + width, y + 14, number(value, ".3g"), "label", anchor="start"),
        ]
    told = ", ".join(f"{name} {number(value)}" for name, value, _ in bars if value is not None)
    how = ", converted as for Gaussian noise" if method == "gaussian" else ""
    opening = svg.opening(f"Epsilon{how}: {told}", (380, 124))
    name = svg.text(0, 12, f"epsilon (ε){how}", "axis-name", anchor="start")
    return "\n".join([opening, name, *parts, "</svg>"])
