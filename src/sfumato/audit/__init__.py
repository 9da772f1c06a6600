"""Auditing: does a promise hold, and what would an attacker learn.

What is measured on raw rows (scores, attacks) is a diagnostic and not for release. What is
certified on made-up neighbours (`empirical_epsilon`, `PrivateEstimator.audit`) touches no data. An
audit can refute a promise; it never proves one.

Read `audits` (one call), `empirical` (lower bounds on epsilon), `attacks` and `membership` (what an
attacker learns), `report`; `testing` has the contracts of private estimators and the taint test.
"""

from sfumato.audit.attacks import membership_attack
from sfumato.audit.audits import audit
from sfumato.audit.empirical import empirical_epsilon
from sfumato.audit.membership import density_difference, membership_score
from sfumato.audit.report import AuditReport
from sfumato.audit.testing.taint import taint_test
