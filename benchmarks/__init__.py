"""Benchmarks: speed and utility, each run kept as JSON."""
