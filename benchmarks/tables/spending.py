"""Searches and plans."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.tables.page import Sections, rows_of


def _search(numbers: list[dict[str, Any]]) -> str:
    head = (
        "Total epsilon 1 at delta 1e-5, add or remove one, five runs; test accuracy of the "
        "defaults with all of the budget, and of the winner of a search with the same total. "
        "Adult: its first 8,000 training rows. A gain below two deviations is none.\n\n"
    )
    titles = ["table", "model", "mean runs", "epsilon each", "defaults", "search", "gain", "± sd"]
    rows = [
        [
            each["table"],
            each["model"],
            f"{each['mean_runs']:g}",
            f"{each['epsilon_each']:.2f}",
            f"{np.mean(each['defaults']):.3f}",
            f"{np.mean(each['search']):.3f}",
            f"{each['gain']:+.3f}",
            f"{each['gain_deviation']:.3f}",
        ]
        for each in numbers
    ]
    return head + rows_of(titles, rows)


def _planning(numbers: list[dict[str, Any]]) -> str:
    inside = np.mean([each["within_plan"] for each in numbers])
    piloted = np.mean([each["within_pilot"] for each in numbers])
    error = np.median([each["pilot_error"] for each in numbers])
    head = (
        "Planned from rows, columns, classes and the largest share alone (scenario typical, "
        "interval hard to easy), and with a pilot of a tenth of the budget; measured on held-out "
        f"rows. Inside the interval: plan {inside:.0%}, pilot {piloted:.0%}; median error of the "
        f"pilot {error:.3f}.\n\n"
    )
    titles = ["set", "model", "epsilon", "planned", "interval", "pilot", "its interval", "measured"]
    rows = [
        [
            each["set"],
            each["model"],
            f"{each['epsilon']:g}",
            f"{each['planned']:.2f}",
            "{:.2f} to {:.2f}".format(*each["planned_interval"]),
            f"{each['pilot']:.2f}",
            "{:.2f} to {:.2f}".format(*each["pilot_interval"]),
            f"{each['measured']:.2f}",
        ]
        for each in numbers
    ]
    return head + rows_of(titles, rows)


SECTIONS: Sections = {
    "search": ("Private search for settings", _search),
    "planning": ("Planned and measured accuracy", _planning),
}
