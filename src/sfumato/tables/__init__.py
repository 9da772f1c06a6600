"""Tables: the public facts about them, their records as numbers, and their files."""

from sfumato.tables.encoder import TableEncoder
from sfumato.tables.frames import is_table
from sfumato.tables.schema import TableBounds
