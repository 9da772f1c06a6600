from benchmarks.tables import rebuild

rebuild()
