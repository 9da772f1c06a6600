"""Tables: the public facts about them, their records as numbers, and their files.

Read `bounds` (what limits a row), `cells` (what an array or a table in memory holds), `columns`
(how a cell is read as its declared type), `schema` (what is declared about a table), `encoder`
(records as rows of numbers); then `text` and `files` (tables on disk) and `proposal`
(bounds that are proposed to the owner).
"""

from sfumato.tables.encoder import TableEncoder
from sfumato.tables.proposal import check_table
from sfumato.tables.schema import TableBounds
