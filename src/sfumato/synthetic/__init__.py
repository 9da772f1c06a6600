"""Private rows that any estimator may be trained on, and private hulls of such rows.

Read `fabricator` first; then `cells` (columns as cells, values inside them) and
`table_law` (what is released of a table, and rows drawn from it). `linked` makes one table of
people and their events, and back; `quality` measures fabricated rows; `hull_classifier` fits hulls
to rows drawn from private Gaussians.
"""
