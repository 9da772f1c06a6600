"""What was promised and what was achieved, for people who must answer for it.

`plan` says what a budget means before anything is spent, `report` what was released and what is
left (as JSON and one HTML page, by `parts`, `words`, `charts` and the templates), and `certificate`
signs what a file promises. Read them in this order.
"""

from sfumato.report.certificate import CertificateError
from sfumato.report.parts import (
    Audit,
    LedgerExtract,
    Marginal,
    SignatureBlock,
)
from sfumato.report.plan import (
    Plan,
    epsilon_needed,
    plan,
    rows_needed,
)
from sfumato.report.report import Report, Result
