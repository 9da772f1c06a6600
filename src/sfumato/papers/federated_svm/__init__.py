"""Federated private PCA and SVM (Wang et al. 2024): experiments and verdicts."""
