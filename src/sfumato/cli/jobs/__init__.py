"""Whole jobs on a table: fit, predict, fabricate, publish a function, measure."""
