"""The ledger: what was charged, for whom, and proof of it.

Read in this order: `receipt.py` (a charge is paid once, each draw ticks off its part), `ledger.py`
(the file and its data sets), `dataset_budget.py` (one data set's budget), `shared_budget.py`
(quotas of several analysts), `spending.py` (the cost so far, in bounded size), then `chain.py` and
`store.py` (how lines are sealed and stored).
"""
