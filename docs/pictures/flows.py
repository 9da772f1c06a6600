"""The flows among the pictures of the proof sheets: title, story and steps of each.

A step that begins with "!" crosses into the public; one that begins with "~" is not covered.
"""

from __future__ import annotations

FLOWS: dict[str, tuple[str, str, list[str]]] = {
    "ledger": (
        "Charged before drawn",
        "Events are priced and written in one transaction; only then is noise drawn.",
        [
            "events of all releases of a fit (free of data)",
            "one transaction, other writers excluded:\nchain checked, enough budget for all?",
            "no: an error, nothing was drawn",
            "yes: lines written and synced, a receipt",
            "!noise is drawn on the receipt",
            "released numbers",
        ],
    ),
    "records": (
        "One record alone, and nothing raises",
        "Each cell becomes a number or is missing; each row is clipped by itself.",
        [
            "a record: cells of any type",
            "each cell by itself: a double, or missing",
            "missing anywhere: the public default row",
            "clipped to public bounds: row and label code",
            "list of rows; neighbours differ in one place",
        ],
    ),
    "sums": (
        "A sum that has no order",
        "Terms on a grid are added exactly as integers; one rounding at the end.",
        [
            "terms t(x): multiples of 2⁻³⁶ below 2",
            "blocks of 2¹⁶ records: 53 bits are enough",
            "blocks as 64-bit integers: they commute",
            "one rounding to a double (none below 2¹⁷)",
            "!noise for D + √size·v",
        ],
    ),
    "partitions": (
        "Parts are added up, and counted",
        "Every part answers once; a missing or contradicting part stops the release.",
        [
            "parts of the table, each on some worker",
            "each part: exact sum, number, name of the pass",
            "driver: one message per part, equal if repeated",
            "a part is missing, or two differ: no release",
            "!all are there: one sum, one draw, charged before",
        ],
    ),
    "regression": (
        "One matrix holds the regression",
        "Row, constant and target of a record make one vector of the unit ball.",
        [
            "record: row z in the unit ball, target t in [−1, 1]",
            "v = [z; 1; t]/√3, so ‖v‖ ≤ 1",
            "Σ vvᵀ, moved by 1 or √2",
            "!Gaussian noise, charged before",
            "!method “noisy-gd”: T clipped gradients beside it",
            "count, means, covariance, line, residual spread",
        ],
    ),
    "scores": (
        "A score is a release",
        "Each record is right or wrong by itself; two counts get noise.",
        [
            "public model, private rows to measure on",
            "each record: right or wrong (or [1, t, p]/√3)",
            "two counts (or one matrix)",
            "!Laplace (or Gaussian) noise, charged before",
            "accuracy (or R²), with its deviation",
        ],
    ),
    "knots": (
        "Cut, and cut again",
        "Counts of a public grid are halved level by level by the exponential mechanism.",
        [
            "a record: one of the cells per column",
            "counts of 4,096 cells and finer ones at the ends",
            "!level 1: one cut, score −|below − above|",
            "!level 2: a cut in each of 2 parts",
            "!… level L: 2^L parts of about equal counts",
            "knots: edges of the cut cells",
        ],
    ),
    "gaussian-classifier": (
        "Releases of the Gaussian classifier",
        "Sum and lengths, second moment, class moments: all charged first.",
        [
            "rows in the unit ball, labels of a public set",
            "![R1] Σ[z; ‖z‖²; 1]: centre and spread",
            "![R2] Σ(z−m)(z−m)ᵀ, clipped: directions",
            "![R3] whole classes, where a class has parts",
            "![R4] class moments along the directions",
            "Gaussians per class, predictions: free",
        ],
    ),
    "label-tree": (
        "Tables of counts along a tree",
        "Six releases, then rows are drawn from the released tables.",
        [
            "a record: one cell of each column, and its label",
            "!(1) edges of cells  (2) counts column × class",
            "!(3) L − 1 pairs, chosen  (4) their counts",
            "!(5) R more pairs, chosen  (6) their counts",
            "fitted to one another, rows drawn: free",
        ],
    ),
    "linked-tables": (
        "A person with all events is one record",
        "Facts, number of events, first event and one more make a record.",
        [
            "people: one row per key;  events: any number",
            "per key: facts, number of events,\nfirst event, one more by a digest of the key",
            "one record per person",
            "!Fabricator, method “tree”",
            "split: people and events drawn: free",
        ],
    ),
    "hull-classifier": (
        "Hulls of released rows",
        "The classifier releases nothing beyond what the Fabricator releases.",
        [
            "rows and labels",
            "!releases of the Fabricator, no other",
            "rows drawn, or noisy rows",
            "branches and hulls fitted to these: free",
            "predict: queries clipped by public bounds",
        ],
    ),
    "transfer": (
        "From a private source to a target",
        "The source's sums are released; the target is read raw unless it is protected.",
        [
            "source rows in the unit ball",
            "!sums of the record engine, or entry noise",
            "Gaussians of the source: a file that may travel",
            "~target: raw rows (conditional), or\nreleases of its own (protect_target)",
            "the model",
        ],
    ),
    "federated": (
        "One release per task and phase",
        "A party checks its terms, charges, draws, stores and only then sends.",
        [
            "a request, from anybody, any number of times",
            "terms of the party: bounds, epsilon, unit",
            "stored reply there? the same bytes again",
            "!charge, fit, noise",
            "reply stored and synced, then sent",
        ],
    ),
    "federated-sums": (
        "An algorithm over parties",
        "Parties pay for all sums first; each checks what it adds up.",
        [
            "sums.begin: all events charged at each party",
            "statistic n: read by a closed schema,\nits sensitivity computed by the party",
            "!noise at each party, or one share of it\nin a secure sum",
            "noisy total: the algorithm asks for the next",
        ],
    ),
    "secure-sums": (
        "A total, and nothing else",
        "Five steps: keys, shares, masked numbers, confirmation, reveal.",
        [
            "advertise: signed session keys",
            "share: seeds and mask keys, t of P, sealed",
            "mask: numbers + own stream ± streams of pairs",
            "confirm: t signatures of one list",
            "!reveal: seeds of those in the list,\nmask keys of those who left: never both",
            "total modulo 2⁶⁴",
        ],
    ),
}
