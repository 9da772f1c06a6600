"""Losses, and minimisers of sums of them with certificates. Nothing here is private by itself."""
