"""Flower app of federated hulls."""
