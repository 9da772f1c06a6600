"""The few names of ``diffprivlib.utils`` that scripts import."""

from sklearn.utils import check_random_state

from sfumato.exceptions import BudgetExceededError as BudgetError

__all__ = ["BudgetError", "check_random_state"]
