"""Draw the most important curves of UCI Adult; needs SFUMATO_DATA.

python -m docs.pictures.additive_curves
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.model_tables import table
from sfumato import PrivateAdditiveClassifier
from sfumato.models.additive import plot_explanation


def main() -> None:
    data = table("adult")
    model = PrivateAdditiveClassifier(
        epsilon=1.0, delta=1e-5, relation="add_or_remove_one", bounds=data.bounds
    ).fit(data.train, data.y_train)
    figure = plot_explanation(model.explain(), n_columns=6)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=80)


if __name__ == "__main__":
    main()
