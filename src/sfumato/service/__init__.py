"""`sfumato serve` and `sfumato studio`: one budget, shared, behind an API and web pages.

`routes` has every verb, `office` who sees what, `workers` alone read rows, `tasks` are their jobs.
"""
