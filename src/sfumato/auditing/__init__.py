"""Auditing: does a promise hold, and what would an attacker learn.

What is measured on raw rows (scores, attacks, matches) is a diagnostic and not for release. What is
certified on made-up neighbours (`empirical_epsilon`, `PrivateEstimator.audit`) touches no data. An
audit can refute a promise; it never proves one.
"""

from sfumato.auditing.attack import membership_attack
from sfumato.auditing.audit import audit
from sfumato.auditing.density_difference import density_difference
from sfumato.auditing.empirical import empirical_epsilon
from sfumato.auditing.membership import membership_score
from sfumato.auditing.one_run import audit_in_one_run
from sfumato.auditing.reidentification import reidentification
from sfumato.auditing.report import AuditReport
from sfumato.auditing.shadow import shadow_attack
from sfumato.testing.taint import taint_test

__all__ = [
    "AuditReport",
    "audit",
    "audit_in_one_run",
    "density_difference",
    "empirical_epsilon",
    "membership_attack",
    "membership_score",
    "reidentification",
    "shadow_attack",
    "taint_test",
]
