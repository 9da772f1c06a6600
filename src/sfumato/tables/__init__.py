"""Tables: their columns as numbers, their files, and the file of their public bounds."""

from sfumato.tables.form import TableForm, is_table

__all__ = ["TableForm", "is_table"]
