"""The few names of ``diffprivlib.utils`` that scripts import."""

from sklearn.utils import check_random_state

from sfumato.compat.diffprivlib.accountant import Budget
from sfumato.exceptions import BudgetExceededError as BudgetError

__all__ = ["Budget", "BudgetError", "check_random_state"]
