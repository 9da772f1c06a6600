"""Modules that need an extra are collected only where it is installed."""

from importlib.util import find_spec

collect_ignore_glob = (
    [] if find_spec("flwr") else ["src/sfumato/federated/flower/*", "tests/federated/cluster.py"]
)
