"""Draw the pictures of the proof sheets from their formulas: python -m docs.pictures.sheets

One picture per sheet, `PICTURES`, named after it. Lines are what the formulas of the sheet give,
evaluated here or by the library; `flows.py` has those that are steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist

from benchmarks.drawing import Line, chart, curve, flow
from docs.pictures.flows import FLOWS
from sfumato.privacy import (
    delta_from_mu,
    epsilon_from_mu,
    epsilon_spent,
    mu_from_budget,
    objective_delta,
)
from sfumato.privacy.attacker import percent
from sfumato.privacy.events import GaussianEvent, ObjectivePerturbationEvent, SelectionEvent

FOLDER = Path(__file__).parent / "sheets"
PHI = NormalDist().cdf
BELL = NormalDist().pdf
ROOT2 = math.sqrt(2)

PICTURES: dict[str, Callable[[], str]] = {}


def picture(name: str) -> Callable[[Callable[[], str]], Callable[[], str]]:
    """Enter a drawing under the name of its sheet."""

    def enter(draw: Callable[[], str]) -> Callable[[], str]:
        PICTURES[name] = draw
        return draw

    return enter


# Mechanisms ---------------------------------------------------------------------------------------


@picture("noise")
def noise() -> str:
    step = 0.5
    cells = [round(-3 + step * i, 2) for i in range(13)]
    stairs = [
        point
        for c in cells
        for share in [(PHI(c + step / 2) - PHI(c - step / 2)) / step]
        for point in ((c - step / 2, share), (c + step / 2, share))
    ]
    return chart(
        "Real noise, rounded to a public grid",
        "The probability of a grid point is that of the whole cell around it.",
        [
            Line("density of the real noise", curve(BELL, -3.25, 3.25)),
            Line("what is drawn: the real noise rounded, cell by cell", stairs),
        ],
        x="noise / scale",
        y="density",
    )


@picture("gaussian")
def gaussian() -> str:
    mu = mu_from_budget(1.0, 1e-5)
    near, far = ([(x, BELL(x - m)) for x, _ in curve(BELL, -3.5, 4)] for m in (0.0, mu))
    return chart(
        "Two neighbours, μ apart",
        "Two normal densities overlap nearly everywhere.",
        [
            Line("release from one data set, in units of s", near),
            Line(f"from its neighbour: D/s = μ = {mu:.3f} for (1, 10⁻⁵)", far),
        ],
        x="released number / s",
        y="density",
    )


@picture("laplace")
def laplace() -> str:
    def law(centre: float) -> Callable[[float], float]:
        return lambda x: math.exp(-abs(x - centre)) / 2

    return chart(
        "Two neighbours under Laplace noise, ε = 1",
        "On a logarithmic axis two tents; between them the ratio is at most e.",
        [
            Line("release from one data set", curve(law(0.0), -4, 5, 90)),
            Line("from its neighbour: nowhere more than e^ε apart", curve(law(1.0), -4, 5, 90)),
        ],
        x="released number · ε/D",
        y="density",
        y_log=True,
    )


@picture("entry")
def entry() -> str:
    shares = (1, 4, 16, 64, 256, 784)
    return chart(
        "What ε = 0.1 per entry is for a record",
        "The pure figure is 0.1 times the number of entries: 78.4 for 784.",
        [Line("pε, for a whole record of p numbers (δ = 0)", [(p, 0.1 * p) for p in shares])],
        x="numbers in a record, p",
        y="ε of the record",
        x_log=True,
        y_log=True,
        dots=True,
    )


@picture("gamma")
def gamma() -> str:
    def radius(m: int) -> Callable[[float], float]:
        return lambda r: math.exp((m - 1) * math.log(max(r, 1e-9)) - r - math.lgamma(m))

    return chart(
        "Length of Gamma-norm noise",
        "The length is Gamma(m) distributed, about m D/ε.",
        [Line(f"m = {m}", curve(radius(m), 0, 30, 90)) for m in (1, 5, 15)],
        x="‖b‖ · ε/D",
        y="density",
    )


@picture("exponential")
def exponential() -> str:
    def bound(epsilon: float) -> Callable[[float], float]:
        return lambda x: (1 - math.exp((x - epsilon) / 2)) ** 2 / (1 - math.exp(-epsilon))

    def pure(epsilon: float) -> Callable[[float], float]:
        return lambda x: max(0.0, (math.exp(epsilon) - math.exp(x)) / (math.exp(epsilon) + 1))

    return chart(
        "Bounded range is less than pure ε",
        "The curve of bounded range lies below that of randomised response.",
        [
            Line("bounded range 1: H(x) of Lemma 1", curve(bound(1.0), 0, 1)),
            Line("pure ε = 1, the worst case", curve(pure(1.0), 0, 1), dashed=True),
        ],
        x="x",
        y="δ(x)",
    )


@picture("response")
def response() -> str:
    def truth(classes: int) -> Callable[[float], float]:
        return lambda e: math.exp(e) / (math.exp(e) + classes - 1)

    return chart(
        "How often the label is told truly",
        "It rises from 1/C at ε = 0 to nearly 1.",
        [Line(f"C = {c}", curve(truth(c), 0, 8)) for c in (2, 10, 100)],
        x="ε",
        y="probability of the true label",
    )


@picture("objective")
def objective() -> str:
    def line(dimension: int) -> Line:
        event = ObjectivePerturbationEvent(4.0, kappa=0.2, dimension=dimension)
        points = [(e / 10, max(objective_delta(event, e / 10), 1e-12)) for e in range(4, 19)]
        return Line(f"bound W: r = 4, κ = 0.2, m = {dimension}", points)

    plain = [(e / 10, max(delta_from_mu(0.25, e / 10), 1e-12)) for e in range(4, 19)]
    return chart(
        "Privacy curve of objective perturbation",
        "More directions m cost more; a Gaussian release with the same r costs less.",
        [line(1), line(2), line(18), Line("Gaussian release, μ = 1/r", plain, dashed=True)],
        x="ε",
        y="δ(ε)",
        y_log=True,
        y_range=(1e-8, 1.0),
    )


@picture("process")
def process() -> str:
    def f(x: float) -> float:
        return sum(math.exp(-((x - c) ** 2) / 0.02) for c in (0.25, 0.3, 0.65, 0.7, 0.72)) / 5

    def kernel(x: float) -> float:
        return math.exp(-((x - 0.25) ** 2) / 0.02) / 5

    shift = 0.12
    band = [(x, f(x) + 2 * shift) for x, _ in curve(f, 0, 1)]
    low = [(x, f(x) - 2 * shift) for x, _ in curve(f, 0, 1)]
    return chart(
        "A function, its neighbour, and the band of the noise",
        "Where one record is taken away the function moves, well inside of the noise.",
        [
            Line("f", curve(f, 0, 1)),
            Line("f′: one of five kernels taken away", curve(lambda x: f(x) - kernel(x), 0, 1)),
            Line("f + 2s", band, dashed=True),
            Line("f − 2s", low, dashed=True),
        ],
        x="x",
        y="value",
    )


@picture("output-perturbation")
def output_perturbation() -> str:
    return two_bowls("D/Λ", "Λ")


@picture("kernel-machines")
def kernel_machines() -> str:
    return two_bowls("M/(λn)", "2λ")


def two_bowls(distance: str, curvature: str) -> str:
    """Draw two strongly convex objectives whose slopes differ by a constant."""
    return chart(
        "Two objectives, two minimisers",
        "Parabolas whose slopes differ by at most D have minima at most D over curvature apart.",
        [
            Line(
                f"objective of one data set, curvature {curvature}", curve(lambda w: w * w, -2, 3)
            ),
            Line(
                f"its neighbour's: minimum at most {distance} away",
                curve(lambda w: (w - 0.9) ** 2 + 0.4, -2, 3),
            ),
        ],
        x="w",
        y="objective",
    )


@picture("noisy-gradient")
def noisy_gradient() -> str:
    def spent(multiplier: float) -> Line:
        points = [
            (t, epsilon_from_mu(math.sqrt(t) / multiplier, 1e-5))
            for t in (1, 3, 10, 30, 60, 120, 240, 480)
        ]
        return Line(f"noise multiplier r = {multiplier:g}", points)

    return chart(
        "What T gradients cost at δ = 10⁻⁵",
        "μ grows with the square root of T.",
        [spent(20), spent(60), spent(200)],
        x="released gradients, T",
        y="ε, for μ = √T/r",
        x_log=True,
        y_log=True,
        dots=True,
    )


# What is promised, and paid -----------------------------------------------------------------------


@picture("attacker")
def attacker() -> str:
    mu = mu_from_budget(1.0, 1e-5)
    inverse = NormalDist().inv_cdf
    places = [i / 60 for i in range(61)]
    exact = [(a, PHI(inverse(a) + mu) if 0 < a < 1 else a) for a in places]
    worst = [(a, min(math.e * a + 1e-5, 1 - (1 - 1e-5 - a) / math.e, 1.0)) for a in places]
    right = PHI(mu / 2)
    return chart(
        "The best attacker at (1, 10⁻⁵)",
        "Hits against false alarms: Gaussian noise is far below the worst case.",
        [
            Line(f"Gaussian noise; right from even odds: at most {percent(right)}", exact),
            Line("the worst (1, 10⁻⁵)-private mechanism", worst),
            Line("guessing", [(0, 0), (1, 1)], dashed=True),
        ],
        x="false alarms, a",
        y="hits, b",
    )


@picture("filters")
def filters() -> str:
    limit = mu_from_budget(3.0, 1e-5) ** 2
    totals = [0.0, 0.1, 0.24, 0.29, 0.42, 0.48]
    stair = [point for i, total in enumerate(totals) for point in ((i, total), (i + 1, total))]
    refused = [(6, totals[-1]), (6, totals[-1] + 0.09), (7, totals[-1] + 0.09)]
    return chart(
        "A filter adds up μ² and stops at its limit",
        "A stair of costs, each chosen after the last was seen, under a fixed limit.",
        [
            Line("Σμ² after each release, chosen adaptively", stair),
            Line("the next charge would pass the limit: refused", refused, dashed=True),
            Line(f"limit for (3, 10⁻⁵): μ² = {limit:.3f}", [(0, limit), (7, limit)], dashed=True),
        ],
        x="releases",
        y="Σμ²",
        y_range=(0.0, 0.65),
    )


@picture("search")
def search() -> str:
    run = GaussianEvent(1 / mu_from_budget(0.5, 1e-5))

    def cost(expected: float) -> float:
        event = SelectionEvent(((run,),), "negative_binomial", expected, shape=1.0)
        return epsilon_spent([event], 1e-5)

    runs = (1.5, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
    composed = [(k, epsilon_from_mu(math.sqrt(k) / run.noise_multiplier, 1e-5)) for k in runs]
    return chart(
        "The winner of E[K] runs of ε = 0.5 each, δ = 10⁻⁵",
        "The search costs a few times one run; composing all runs costs ever more.",
        [
            Line("private search, geometric law [V4]", [(k, cost(k)) for k in runs]),
            Line("as many runs, all of them shown", composed, dashed=True),
        ],
        x="expected number of runs, E[K]",
        y="ε of the whole",
        x_log=True,
        y_log=True,
        dots=True,
    )


# Rows, tables, sums -------------------------------------------------------------------------------


@picture("tables")
def tables() -> str:
    return chart(
        "Longest row of a table",
        "The root of a quarter per number and a half per category.",
        [
            Line("√(a/4 + b/2): only numbers", [(k, math.sqrt(k / 4)) for k in range(1, 41)]),
            Line(
                "half of the columns are categories",
                [(k, math.sqrt(3 * k / 8)) for k in range(1, 41)],
            ),
            Line("only categories", [(k, math.sqrt(k / 2)) for k in range(1, 41)]),
        ],
        x="columns, a + b",
        y="length of an encoded row, at most",
    )


@picture("persons")
def persons() -> str:
    each = range(1, 13)
    return chart(
        "How far one person moves a sum, replaced (D_replace = √2, D_add = 1)",
        "Average stays, sum grows with k, clipped together grows as chosen.",
        [
            Line("average of her rows", [(k, ROOT2) for k in each]),
            Line("sum of her rows", [(k, k * ROOT2) for k in each]),
            Line("sum, clipped together to B = √k", [(k, 2 * math.sqrt(k)) for k in each]),
        ],
        x="rows per person, at most k",
        y="sensitivity",
    )


@picture("pca")
def pca() -> str:
    return chart(
        "How far replacing z by w moves the sum",
        "The Frobenius distance of two projectors is √2 times the sine of their angle.",
        [
            Line(
                "‖zzᵀ − wwᵀ‖ for unit rows at an angle: √2·sin",
                curve(lambda a: ROOT2 * math.sin(math.radians(a)), 0, 180),
            ),
            Line("D = √2", [(0, ROOT2), (180, ROOT2)], dashed=True),
        ],
        x="angle of z and w, degrees",
        y="distance",
    )


@picture("moments")
def moments() -> str:
    return chart(
        "Which weight of the constant?",
        "Noise on second moments grows with w, on counts it falls; sums are flat near one.",
        [
            Line("second moments: 1 + w²", curve(lambda w: 1 + w * w, 0.4, 1.6)),
            Line("sums, so means: (1 + w²)/w", curve(lambda w: (1 + w * w) / w, 0.4, 1.6)),
            Line("counts: (1 + w²)/w²", curve(lambda w: (1 + w * w) / w**2, 0.4, 1.6)),
            Line("w = 7/8, as taken", [(0.875, 1.0), (0.875, 7.2)], dashed=True),
        ],
        x="w",
        y="noise in units of √2/μ",
    )


# Estimators ---------------------------------------------------------------------------------------


@picture("fabrication")
def fabrication() -> str:
    def g(s: float) -> float:
        t = min(s, 2 - s)
        return math.sqrt(s * s * (1 + t * t))

    return chart(
        "First release [R1]: the sensitivity of [z; ‖z‖²; 1]",
        "The bound rises to two at the sum of lengths two.",
        [
            Line("bound for two rows of lengths a and b", curve(g, 0, 2)),
            Line("D = 2, replace one", [(0, 2), (2, 2)], dashed=True),
            Line("√3, add or remove one", [(0, math.sqrt(3)), (2, math.sqrt(3))], dashed=True),
        ],
        x="s = a + b",
        y="distance of two terms",
    )


@picture("density")
def density() -> str:
    return chart(
        "Sensitivity of a sum of Gaussian kernels",
        "It grows from zero to √2 as the box becomes wide in bandwidths.",
        [
            Line(
                "√(2 − 2k_min), one feature, replace one",
                curve(lambda w: math.sqrt(2 - 2 * math.exp(-w * w / 2)), 0, 6),
            ),
            Line("√2: with labels, or a wide box", [(0, ROOT2), (6, ROOT2)], dashed=True),
        ],
        x="side of the box in bandwidths",
        y="D",
    )


@picture("grid-density")
def grid_density() -> str:
    return chart(
        "How many cells on a line",
        "Three times the number of records times epsilon, to the power 0.4.",
        [
            Line(
                f"ε = {e:g}",
                [
                    (n, min(max(2 * round(1.5 * (n * e) ** 0.4), 4), 4096))
                    for n in (100, 1000, 10_000, 100_000, 1_000_000)
                ],
            )
            for e in (0.1, 1.0)
        ],
        x="records, n (public)",
        y="cells, 3(nε)^0.4, even",
        x_log=True,
        y_log=True,
        dots=True,
    )


@picture("mean-curve")
def mean_curve() -> str:
    tau, f = 2.0, 1.0
    return chart(
        "Which constant beside a curve? (τ = 2, F = 1)",
        "The worst variance is least at c² = τF.",
        [
            Line(
                "(τ² + c²)(1 + F²/c²), worst variance",
                curve(lambda c: (tau**2 + c * c) * (1 + f / c**2), 0.6, 3),
            ),
            Line("least, (τ + F)² = 9, at c = √(τF)", [(0.6, 9), (3, 9)], dashed=True),
        ],
        x="c",
        y="variance in units of σ²/n²",
    )


@picture("large-margin")
def large_margin() -> str:
    classes = range(2, 11)
    return chart(
        "Sensitivity of the gradient, and the printed one",
        "Both of ours grow with the number of classes; the printed number stays two.",
        [
            Line("replace one: √2·C", [(c, ROOT2 * c) for c in classes]),
            Line("add or remove one: √(C(C−1))", [(c, math.sqrt(c * (c - 1))) for c in classes]),
            Line("as printed: 2, for one matrix", [(c, 2) for c in classes], dashed=True),
        ],
        x="classes, C",
        y="D",
        y_range=(0.0, 15.0),
    )


@picture("linear-classifier")
def linear_classifier() -> str:
    classes = range(3, 21)
    return chart(
        "Largest gradient of a row, three classes or more",
        "Softmax stays at √2 for any number of classes, one Huber machine per class does not.",
        [
            Line("softmax: L = √2", [(c, ROOT2) for c in classes]),
            Line("huber, one machine per class: L = √C", [(c, math.sqrt(c)) for c in classes]),
        ],
        x="classes, C",
        y="L (add or remove: D = L; replace: 2L)",
        y_range=(0.0, 5.0),
    )


@picture("additive")
def additive() -> str:
    places = (0.0, 0.15, 0.4, 0.55, 1.0)

    def hat(i: int) -> list[tuple[float, float]]:
        return [(p, 1.0 if i == j else 0.0) for j, p in enumerate(places)]

    return chart(
        "Hats: a number is shared by the two knots beside it",
        "Piecewise linear functions, one per knot, that add up to one everywhere.",
        [Line(f"knot {i + 1}", hat(i)) for i in range(len(places))],
        x="place of the number in its range",
        y="weight",
    )


# Parties ------------------------------------------------------------------------------------------


@picture("noise-in-shares")
def noise_in_shares() -> str:
    return chart(
        "What counting on fewer parties costs",
        "The noise of the total is as if made by m₀ parties and drawn by all P.",
        [
            Line("√(P/m₀)", curve(lambda share: 1 / math.sqrt(1 - share), 0, 0.8)),
            Line("noise of one table", [(0, 1), (0.8, 1)], dashed=True),
        ],
        x="share of the parties that may drop out or collude",
        y="noise over that of one table",
    )


def drawn() -> dict[str, str]:
    """Return all pictures by the names of their sheets."""
    return {name: draw() for name, draw in PICTURES.items()} | {
        name: flow(*parts) for name, parts in FLOWS.items()
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in drawn().items():
        (FOLDER / f"{name}.svg").write_text(text)
