"""Ours beside other packages on the same rows: the tasks of `benchmarks.bench_peers`.

Each task gives rows for one table (`rows`). What the others answer comes from `scripts`, which run
under Pythons of their own (`asking`).
"""
