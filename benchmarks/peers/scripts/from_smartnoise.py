"""Tables by SmartNoise: `pip install smartnoise-synth`. Adding or removing a row is protected."""

from __future__ import annotations

from typing import Any

import pandas as pd
from answering import answer
from snsynth import Synthesizer


def mst(*, epsilon: float, delta: float, table: Any, **_: Any) -> Any:
    """All columns are categories that are public, so that nothing is spent on finding them."""
    columns = [f"c{number}" for number in range(table.shape[1])]
    rows = pd.DataFrame(table, columns=columns)

    def release() -> Any:
        synthesizer = Synthesizer.create("mst", epsilon=epsilon, delta=delta)
        synthesizer.fit(rows, categorical_columns=columns, preprocessor_eps=0.0)
        return synthesizer.sample(len(rows)).to_numpy().astype(int)

    return release


if __name__ == "__main__":
    answer("smartnoise-synth", {"mst": mst})
