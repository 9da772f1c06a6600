"""Auditing: does a promise hold, and what would an attacker learn.

What is measured on raw rows (scores, attacks, matches) is a diagnostic and not for release. What is
certified on made-up neighbours (`empirical_epsilon`, `PrivateEstimator.audit`) touches no data. An
audit can refute a promise; it never proves one.
"""

from sfumato.audit.attack import membership_attack
from sfumato.audit.audit import audit
from sfumato.audit.density_difference import density_difference
from sfumato.audit.empirical import empirical_epsilon
from sfumato.audit.membership import membership_score
from sfumato.audit.one_run import audit_in_one_run
from sfumato.audit.reidentification import reidentification
from sfumato.audit.report import AuditReport
from sfumato.audit.shadow import shadow_attack
from sfumato.audit.testing.taint import taint_test
