"""Privacy for functions (Hall, Rinaldo and Wasserman 2013): experiments and verdicts."""
