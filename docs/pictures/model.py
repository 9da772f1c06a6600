"""Draw docs/pictures/model-light.svg and -dark.svg: a curve of the README's model, and its card.

python docs/pictures/model.py
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import matplotlib.pyplot as plt
import pyarrow as pa

from sfumato import PrivateAdditiveClassifier, TableBounds
from sfumato.datasets import load

LOOKS = {
    "light": {"line": "#0d676d", "text": "#1b1f23", "grid": "#d0d7de", "card": "#f3f7f7"},
    "dark": {"line": "#5cc4cb", "text": "#e6edf3", "grid": "#3d444d", "card": "#18222a"},
}


def main() -> None:
    hospital = load("hospital")
    train = pa.table(hospital.table(hospital.parts()[0]))
    public = {
        "age": (0, 110),
        "emergency": bool,
        "diabetes": bool,
        "earlier_stays": (0, 20),
        "days": (0, 60),
        "readmitted": ["no", "yes"],
    }
    bounds = TableBounds.from_dict(public, target="readmitted")
    model = PrivateAdditiveClassifier(epsilon=1.0, delta=1e-5, bounds=bounds).fit(train)
    curve = next(found for found in model.explain().curves if found.name == "age")
    plt.rcParams |= {"svg.fonttype": "none", "font.family": "sans-serif", "svg.hashsalt": "sfumato"}
    for theme, look in LOOKS.items():
        figure, (axis, card) = plt.subplots(
            2, 1, figsize=(5.2, 5.4), height_ratios=(1.1, 1), layout="constrained"
        )
        line, band = curve.curve[-1], curve.band[-1]
        axis.fill_between(curve.values, line - band, line + band, color=look["line"], alpha=0.2)
        axis.plot(curve.values, line, color=look["line"], lw=2)
        axis.set_title("What age adds to the score for readmission", color=look["text"])
        axis.set_xlabel("age in years", color=look["text"])
        axis.tick_params(colors=look["text"])
        axis.grid(color=look["grid"])
        for side in axis.spines.values():
            side.set_color(look["grid"])
        card.axis("off")
        card.add_patch(
            plt.Rectangle((0, 0), 1, 1, facecolor=look["card"], edgecolor=look["grid"], lw=1.5)
        )
        card.text(0.04, 0.86, "Guarantee", color=look["line"], fontsize=12, weight="bold")
        words = textwrap.fill(str(model.guarantee_), 57)
        card.text(0.04, 0.79, words, color=look["text"], fontsize=10, va="top", linespacing=1.4)
        about = {"Date": None, "Description": "A private curve with its band, and its guarantee."}
        path = Path(__file__).with_name(f"model-{theme}.svg")
        figure.savefig(path, transparent=True, metadata=about)


if __name__ == "__main__":
    main()
