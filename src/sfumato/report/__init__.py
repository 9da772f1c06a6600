"""What was promised and what was spent, for people who must answer for it.

`report` says what was released and what is left (as JSON and one HTML page, by `parts`, `words`,
`charts` and the templates), and `certificate` signs what a file promises. Read them in this order.
"""

from sfumato.report.certificate import CertificateError
from sfumato.report.parts import LedgerExtract, Marginal, SignatureBlock
from sfumato.report.report import Report, Result
