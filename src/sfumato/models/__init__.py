"""Private estimators and the models that they are made of.

Read in this order: `base.py` (what estimators share: public facts become a `Reader`, `fit` becomes
declare, charge, draw), `budget.py` (how releases are calibrated, priced, paid and drawn), then
any estimator: `gaussian.py`, `linear.py` and `additive.py` are the shortest complete ones.
"""
