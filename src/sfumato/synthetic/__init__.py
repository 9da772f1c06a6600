"""Private rows that any estimator may be trained on, and private hulls of such rows.

Tables: `fabricator` first; then `cells` (columns as cells, values inside them) and `table_law`
(what is released of a table, and rows drawn from it). `linked` makes one table of people and their
events, and back; `quality` measures fabricated rows. Arrays: `gaussian_fabricator` draws rows from
private Gaussians, and `hull_classifier` fits hulls to such rows.
"""
