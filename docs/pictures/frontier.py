"""Draw docs/pictures/frontier-light.svg and -dark.svg: accuracy against epsilon on two data sets.

python docs/pictures/frontier.py

Ours are read from benchmarks/results. Others on CIFAR-10 are published figures for adding or
removing a record, delta 1e-5, without public images; those on Adult were run beside ours.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "benchmarks" / "results"
COLOURS = {
    "light": {"ours": "#0d676d", "others": "#b1541b", "text": "#1b1f23", "grid": "#d0d7de"},
    "dark": {"ours": "#5cc4cb", "others": "#f0a267", "text": "#e6edf3", "grid": "#3d444d"},
}
PUBLISHED = {
    "Tang et al. 2023": [(1.0, 0.723)],
    "Tramèr & Boneh 2021": [(3.0, 0.693)],
    "De et al. 2022": [(8.0, 0.814)],
}
Curve = list[tuple[float, float]]


def results(name: str) -> list[dict[str, Any]]:
    return json.loads((RESULTS / f"{name}.json").read_text())["numbers"]


def panel(
    axis: Any, look: dict[str, str], title: str, ours: Curve, others: dict[str, Curve]
) -> None:
    """Draw one data set; names stand beside the last points."""
    axis.set_title(title, fontsize=12, color=look["text"], loc="left")
    curves = [
        ("Sfumato", ours, "ours"),
        *((name, curve, "others") for name, curve in others.items()),
    ]
    for name, curve, kind in curves:
        axis.semilogx(*zip(*curve, strict=True), "o-", color=look[kind], lw=2, ms=6)
        point = curve[len(curve) // 2]
        is_above = kind == "ours" or (point[1] > 0.8 and len(curve) == 1)
        axis.annotate(
            name,
            point,
            xytext=(-6 if point[0] == 1 and len(curve) == 1 else 6, 9 if is_above else -17),
            textcoords="offset points",
            ha="left" if point[0] < 2 else "right",
            color=look[kind],
            fontsize=11,
            fontweight="bold" if kind == "ours" else "normal",
        )
    axis.minorticks_off()
    axis.tick_params(colors=look["text"], labelsize=11)
    axis.grid(color=look["grid"], lw=0.8)
    axis.set_axisbelow(True)
    for side in axis.spines.values():
        side.set_color(look["grid"])


def draw(theme: str) -> None:
    look = COLOURS[theme]
    plt.rcParams |= {"svg.fonttype": "none", "font.family": "sans-serif", "svg.hashsalt": "sfumato"}
    figure, (images, adult) = plt.subplots(2, 1, figsize=(4.9, 6.4), layout="constrained")
    found = [row for row in results("accelerator") if row["part"] == "images"]
    ours = [(row["epsilon"], row["accuracy"]) for row in found]
    panel(images, look, "CIFAR-10: accuracy", ours, PUBLISHED)
    images.set_xticks([1, 3, 8], ["1", "3", "8"])
    images.set_ylim(0.66, 0.84)
    table: dict[str, Curve] = {}
    for row in results("additive_models"):
        if row["table"] == "adult" and "epsilon" in row:
            table.setdefault(row["model"], []).append((row["epsilon"], row["mean"]))
    ebm = next(curve for name, curve in table.items() if name.startswith("DP-EBM"))
    panel(adult, look, "UCI Adult: AUC", table["PrivateAdditiveClassifier"], {"DP-EBM": ebm})
    adult.set_xticks([0.3, 1, 3], ["0.3", "1", "3"])
    adult.set_ylim(0.87, 0.92)
    adult.set_xlabel("epsilon of a whole record", color=look["text"], fontsize=12)
    words = {"Date": None, "Description": "Accuracy against epsilon, ours and the best others."}
    figure.savefig(HERE / f"frontier-{theme}.svg", transparent=True, metadata=words)


if __name__ == "__main__":
    for name in COLOURS:
        draw(name)
