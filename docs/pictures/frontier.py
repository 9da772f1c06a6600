"""Draw docs/pictures/frontier.png: accuracy against epsilon of whole records, with the peers.

python docs/pictures/frontier.py

Reads benchmarks/results; a file that is not there is left out of the picture.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from PIL import Image

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "benchmarks" / "results"
OURS, PEERS = (
    ("#0d676d", "#3aa6a0", "#0a5d8f", "#7a5195", "#b07cc6"),
    ("#b1541b", "#d08a3e", "#8c8c8c", "#555", "#c23b75", "#e0a3b8"),
)
Curve = list[tuple[float, float]]
# What others publish, adding or removing a record, delta 1e-5, without public images; only figures
# that could be checked.
# Who trains what is in the name: a linear classifier on fixed features, or a whole net.
MNIST: dict[str, Curve] = {
    "Tramèr & Boneh 2021, linear": [(1.2, 0.981), (2.93, 0.987)],
}
FASHION: dict[str, Curve] = {
    "Tramèr & Boneh 2021, linear": [(2.7, 0.897)],
}
CIFAR: dict[str, Curve] = {
    "Tramèr & Boneh 2021, linear": [(3.0, 0.670)],
    "Tramèr & Boneh 2021, small net": [(3.0, 0.693)],
    "Tang et al. 2023 (DP-RandP), whole net": [(1.0, 0.723)],
    "best before DP-RandP, whole net": [(1.0, 0.606)],
    "De et al. 2022, whole net": [(8.0, 0.814)],
    "best before De et al., whole net": [(8.0, 0.717)],
}


def numbers(name: str) -> list[dict[str, Any]]:
    """Return the numbers of one results file, none where it is missing."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text())["numbers"] if path.is_file() else []


def curve(rows: list[dict[str, Any]], **wanted: Any) -> Curve:
    """Pick the points of one method."""
    chosen = [row for row in rows if all(row.get(k) == v for k, v in wanted.items())]
    return sorted((float(row["epsilon"]), row["accuracy"]) for row in chosen)


def frontier() -> tuple[dict[str, Curve], dict[str, Curve]]:
    """All of MNIST: ours, and what others publish."""
    linear, hulls = numbers("margins_frontier"), numbers("fabrication_record")
    scattering = {"data": "mnist", "features": "scattering"}
    ours = {
        "linear, scattering, add or remove": curve(
            linear, relation="add_or_remove_one", **scattering
        ),
        "linear, scattering": curve(linear, relation="replace_one", **scattering),
        "linear, HOG": curve(linear, relation="replace_one", data="mnist", features="hog"),
        "hulls, gradients": curve(hulls, features="gradients"),
        "hulls, pixels": curve(hulls, features="pixels"),
    }
    return ours, MNIST


def clothes() -> tuple[dict[str, Curve], dict[str, Curve]]:
    """All of Fashion-MNIST: ours, and what others publish."""
    rows = numbers("margins_frontier")
    scattering = {"data": "fashion-mnist", "features": "scattering"}
    ours = {
        "linear, scattering, add or remove": curve(
            rows, relation="add_or_remove_one", **scattering
        ),
        "linear, scattering": curve(rows, relation="replace_one", **scattering),
    }
    return ours, FASHION


def colour() -> tuple[dict[str, Curve], dict[str, Curve]]:
    """All of CIFAR-10: ours, and what others publish."""
    rows, parts = numbers("margins_frontier_cifar"), numbers("margins_frontier_cifar_parts")
    added = {"relation": "add_or_remove_one"}
    ours = {
        "linear, three features": curve(rows, features="best", **added),
        "the same, replace": curve(rows, features="best", relation="replace_one"),
        "linear, random-process net": curve(parts, features="random-process", **added),
        "linear, scattering": curve(parts, features="mirrored", **added),
    }
    return ours, CIFAR


def beside_peers(data: str) -> tuple[dict[str, Curve], dict[str, Curve]]:
    """Everybody on the same rows: ours, diffprivlib's, and descent as one writes it oneself."""
    rows = numbers(f"margins_peers_{data}")
    named = {row["classifier"]: curve(rows, classifier=row["classifier"]) for row in rows}
    return (
        {name: points for name, points in named.items() if name.startswith("Private")},
        {name: points for name, points in named.items() if not name.startswith("Private")},
    )


def short(name: str) -> str:
    for long, word in (("Classifier", ""), ("Private", ""), ("Regression", " regression")):
        name = name.replace(long, word)
    return name + (" (pure ε)" if "diffprivlib" in name else "")


def panel(axis: Any, title: str, ours: dict[str, Curve], peers: dict[str, Curve]) -> None:
    """Draw one data set; ours with full lines, the peers dashed."""
    for curves, colours, style in ((ours, OURS, "o-"), (peers, PEERS, "s--")):
        there = {name: points for name, points in curves.items() if points}
        for (name, points), colour in zip(there.items(), colours, strict=False):
            look = {"color": colour, "ms": 4 if points[1:] else 8, "lw": 1.6, "label": short(name)}
            axis.semilogx(*zip(*points, strict=True), style if points[1:] else "*", **look)
    axis.set_title(title, fontsize=10)
    axis.set_xticks([0.1, 1, 10], ["0.1", "1", "10"])
    axis.set_xlabel("ε of a whole record")
    axis.grid(alpha=0.25)
    axis.legend(fontsize=7.5, frameon=False, loc="upper left", bbox_to_anchor=(0, -0.16))


def draw() -> None:
    panels = {
        "MNIST, 60,000 rows": frontier(),
        "Fashion-MNIST, 60,000 rows": clothes(),
        "CIFAR-10, 50,000 rows": colour(),
        "MNIST, 10,000 rows, with peers": beside_peers("mnist"),
        "UCI Adult, with peers": beside_peers("adult"),
    }
    panels = {title: (ours, peers) for title, (ours, peers) in panels.items() if any(ours.values())}
    figure, axes = plt.subplots(
        1, len(panels), figsize=(3.6 * len(panels), 5.4), layout="constrained"
    )
    for axis, (title, (ours, peers)) in zip(axes, panels.items(), strict=True):
        panel(axis, title, ours, peers)
    axes[0].set_ylabel("accuracy on test rows")
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=120)
    Image.open(drawn).convert("RGB").quantize(128).save(HERE / "frontier.png", optimize=True)


if __name__ == "__main__":
    draw()
