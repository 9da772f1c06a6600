"""Draw the most important curves of UCI Adult; needs SFUMATO_DATA.

python -m docs.pictures.additive_curves
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.model_tables import table
from sfumato import PrivateAdditiveClassifier


def main() -> None:
    data = table("adult")
    model = PrivateAdditiveClassifier(
        epsilon=1.0, delta=1e-5, relation="add_or_remove_one", bounds=data.bounds
    ).fit(data.train, data.y_train)
    figure, axes = plt.subplots(2, 3, figsize=(10.2, 5.2), layout="constrained")
    for axis, each in zip(axes.flat, model.explain().curves, strict=False):
        curve, band = each.curve[-1], each.band[-1]
        if each.is_number:
            axis.fill_between(each.values, curve - band, curve + band, alpha=0.25, linewidth=0)
            axis.plot(each.values, curve, marker=".")
        else:
            axis.errorbar(np.arange(len(curve)), curve, yerr=band, fmt="o", capsize=2)
            axis.set_xticks(np.arange(len(curve)), each.values, rotation=60, ha="right", fontsize=7)
        axis.axhline(0, linewidth=0.6, color="grey")
        axis.set_title(each.name, fontsize=9)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=80)


if __name__ == "__main__":
    main()
