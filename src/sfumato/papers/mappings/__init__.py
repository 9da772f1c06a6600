"""Membership mappings and transfer (Kumar 2021): experiments and verdicts."""
