"""What was promised and what was achieved, for people who must answer for it.

`plan` says what a budget means before anything is spent, `report` what was released and what is
left (as JSON and one HTML page, by `parts`, `words`, `charts` and the templates), and `certificate`
signs what a file promises. Read them in this order.
"""

from sfumato.report.certificate import CertificateError as CertificateError
from sfumato.report.parts import Audit as Audit
from sfumato.report.parts import LedgerExtract as LedgerExtract
from sfumato.report.parts import Marginal as Marginal
from sfumato.report.parts import Office as Office
from sfumato.report.plan import Plan as Plan
from sfumato.report.plan import epsilon_needed as epsilon_needed
from sfumato.report.plan import plan as plan
from sfumato.report.plan import rows_needed as rows_needed
from sfumato.report.report import Report as Report
from sfumato.report.report import Result as Result
