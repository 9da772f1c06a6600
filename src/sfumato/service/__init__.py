"""`sfumato serve`: one budget that people share, behind an API and a web page.

`office` holds what officers, analysts and auditors may do, `api` and `studio` are its doors,
`workers` the only place that reads rows.
"""
