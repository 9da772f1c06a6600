"""Flower app of federated linear classifiers."""
