"""Tables by DataSynthesizer's PrivBayes: `pip install DataSynthesizer`. Pure epsilon.

It reads the categories off the rows, which costs it nothing here and is not private.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
from answering import answer
from DataSynthesizer.DataDescriber import DataDescriber
from DataSynthesizer.DataGenerator import DataGenerator


def privbayes(*, epsilon: float, table: Any, **_: Any) -> Any:
    """Networks of at most two parents."""
    columns = [f"c{number}" for number in range(table.shape[1])]
    folder = Path(tempfile.mkdtemp())
    pd.DataFrame(table, columns=columns).astype(str).to_csv(folder / "rows.csv", index=False)
    seeds = iter(range(1000))

    def release() -> Any:
        describer = DataDescriber(category_threshold=10**6)
        describer.describe_dataset_in_correlated_attribute_mode(
            dataset_file=str(folder / "rows.csv"),
            epsilon=epsilon,
            k=2,
            attribute_to_is_categorical=dict.fromkeys(columns, True),
            attribute_to_is_candidate_key=dict.fromkeys(columns, False),
            seed=next(seeds),
        )
        describer.save_dataset_description_to_file(str(folder / "described.json"))
        generator = DataGenerator()
        generator.generate_dataset_in_correlated_attribute_mode(
            len(table), str(folder / "described.json")
        )
        return generator.synthetic_dataset[columns].to_numpy().astype(float).astype(int)

    return release


if __name__ == "__main__":
    answer("datasynthesizer", {"privbayes": privbayes})
