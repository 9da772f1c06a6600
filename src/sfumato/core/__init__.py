"""What must survive: transactions on SQLite and PostgreSQL, atomic files, and stored models.

A stored model is arrays and a JSON header, never code; see `sfumato.save` and `sfumato.load`.
"""
