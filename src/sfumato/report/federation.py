"""The picture of a federation: who took part, what left each party, what the coordinator saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, Self

from sfumato.exceptions import InvalidInputError
from sfumato.report import svg

__all__ = ["PARTY_HEADS", "Parties", "parties_article", "party_rows"]

PARTY_HEADS = ("Party", "Rows", "Sums", "Megabytes sent", "Epsilon paid", "Seen of it alone")
MOST_DRAWN = 12
_STEP, _TOP, _WIDTH, _BOX = 34, 30, 640, 190


@dataclass(frozen=True)
class Parties:
    """What is public about a federation, as `Federation.to_dict` gives it.

    trust: What the coordinator could see of a single party: "noisy" or "secure".
    colluding: Parties that may work with the coordinator.
    epsilon: What each of them has paid for.
    rows: Rows of each party, where their number is public.
    sums: For each sum: its name, who was in it, what was seen, bytes that each party sent.
    """

    trust: str
    colluding: int
    epsilon: float | None
    rows: Mapping[str, int | None]
    sums: tuple[tuple[str, tuple[str, ...], str, int], ...]

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Read what `Federation.to_dict`, or the file ``federation.json``, holds.

        Returns: What is drawn.
        """
        try:
            sums = tuple(
                (
                    str(s["statistic"]),
                    tuple(map(str, s["included"])),
                    str(s["seen"]),
                    int(s["sent"]),
                )
                for s in record["sums"]
            )
            rows = {str(name): each["rows"] for name, each in record["parties"].items()}
            epsilon = record["total"]["epsilon"]
            return cls(str(record["trust"]), int(record["colluding"]), epsilon, rows, sums)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InvalidInputError(
                "'federation' must be what Federation.to_dict gives, or the content of a "
                "federation.json about sums."
            ) from None

    @property
    def sentence(self) -> str:
        """What the coordinator could see, in one sentence."""
        if self.trust == "secure":
            return (
                "The coordinator saw the noisy total of each sum and nothing else about any "
                f"party, even if {self.colluding} of the parties had worked with it."
            )
        return "The coordinator saw each party's sums, every one with all of its noise."


def party_rows(parties: Parties) -> list[tuple[str, ...]]:
    """Give a line for each party."""
    lines: list[tuple[str, ...]] = []
    for name, rows in parties.rows.items():
        own = [(seen, sent) for _, included, seen, sent in parties.sums if name in included]
        seen = own[0][0] if own else "nothing"
        alone = "nothing" if parties.trust == "secure" else seen
        lines.append(
            (
                name,
                "secret" if rows is None else str(rows),
                f"{len(own)} of {len(parties.sums)}",
                f"{sum(sent for _, sent in own) / 2**20:.2f}",
                "infinite" if parties.epsilon is None else f"{float(parties.epsilon):.4g}",
                alone,
            )
        )
    return lines


def parties_article(parties: Parties, key: str) -> str:
    """Draw a federation, and give its table."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in PARTY_HEADS)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td data-name="{escape(name)}">{escape(cell)}</td>'
            for name, cell in zip(PARTY_HEADS, line, strict=True)
        )
        + "</tr>"
        for line in party_rows(parties)
    )
    return (
        f"<p>{escape(parties.sentence)}</p><figure>{_picture(parties, key)}</figure>"
        f'<table class="events"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    )


def _picture(parties: Parties, key: str) -> str:
    """Parties on the left, what leaves them as lines, the coordinator on the right."""
    names = list(parties.rows)
    drawn = names[:MOST_DRAWN]
    lines = len(drawn) + (len(names) > len(drawn))
    height = _TOP + _STEP * lines + 20
    middle = _TOP + _STEP * lines / 2
    said = f"{len(names)} parties. {parties.sentence[:-1]}"
    parts = [svg.opening("Who took part", (_WIDTH, height), said, key)]
    hidden = parties.trust == "secure"
    at = _WIDTH - _BOX if not hidden else _WIDTH / 2 + 20
    for place, name in enumerate(drawn):
        y = _TOP + _STEP * (place + 0.5)
        own = sum(name in included for _, included, _, _ in parties.sums)
        style = "line" if own == len(parties.sums) else "ceiling"
        parts.append(svg.rule(_BOX, y, at, y if not hidden else middle, style))
        parts.append(f'<rect class="frame" x="4" y="{y - 12:.1f}" width="{_BOX - 4}" height="24"/>')
        parts.append(svg.text(12, y + 4, svg.cut(name, 24), "label"))
    if len(names) > len(drawn):
        y = _TOP + _STEP * (lines - 0.5)
        parts.append(svg.text(12, y + 4, f"and {len(names) - len(drawn)} more", "faint"))
    if hidden:
        parts.append(svg.text(at, middle - 14, "sum under masks", "faint", anchor="middle"))
        parts.append(f'<circle class="mark" cx="{at:.1f}" cy="{middle:.1f}" r="6"/>')
        parts.append(svg.rule(at + 6, middle, _WIDTH - 130, middle, "line"))
    box = _WIDTH - 130 if hidden else at
    tall = 24 if hidden else max(_STEP * len(drawn), 24)
    top = middle - tall / 2 if hidden else _TOP
    parts.append(
        f'<rect class="frame" x="{box:.1f}" y="{top:.1f}" width="{_WIDTH - box - 4:.1f}" '
        f'height="{tall:.1f}"/>'
    )
    parts.append(svg.text(box + 8, top + tall / 2 + 4, "coordinator", "label"))
    return "".join(parts) + "</svg>"
