"""Pictures of comparisons: a panel a unit, a dot a figure, gaps left out."""

from __future__ import annotations

import pytest

from sfumato.papers import Comparison
from sfumato.papers.pictures import draw_comparisons, draw_lines

Figure = pytest.importorskip("matplotlib.figure").Figure


def test_one_panel_a_unit_and_one_dot_a_figure() -> None:
    rows = [
        Comparison("first", 0.9, 0.8, None),
        Comparison("second", 0.7, None, None),
        Comparison("third", 10.0, 2.0, 3.0, unit="s"),
    ]
    figure = Figure()
    draw_comparisons(figure, rows)
    left, right = figure.axes
    assert [left.get_xlabel(), right.get_xlabel()] == ["accuracy", "s"]
    dots = {line.get_label(): line.get_xydata().tolist() for line in left.lines}
    assert dots == {"printed": [[0.9, 0.0], [0.7, 1.0]], "paper": [[0.8, 0.0]]}
    assert [line.get_label() for line in right.lines] == ["printed", "paper", "strict"]
    assert [text.get_text() for text in left.get_yticklabels()] == ["first", "second"]


def test_lines_leave_gaps_out_and_dash_what_is_printed() -> None:
    axes = Figure().add_subplot()
    curves = {"printed": [1.0, None, 3.0], "ours": [2.0, 2.0, 2.0], "none": [None] * 3}
    draw_lines(axes, [1, 2, 3], curves, xlabel="x")
    printed, ours = axes.lines
    assert printed.get_xydata().tolist() == [[1.0, 1.0], [3.0, 3.0]]
    assert (printed.get_linestyle(), ours.get_linestyle()) == ("--", "-")
    assert axes.get_xlabel() == "x"
