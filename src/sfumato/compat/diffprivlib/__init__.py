"""diffprivlib's names and signatures on Sfumato's engines: one changed import.

``import sfumato.compat.diffprivlib as dp``. Bounds must be given, models keep (epsilon, delta) with
a small delta, and noise cannot be seeded; all differences stand in docs/howto/from-diffprivlib.md.
"""

from sfumato.compat.diffprivlib import models as models
from sfumato.compat.diffprivlib import tools as tools
from sfumato.compat.diffprivlib import utils as utils
from sfumato.compat.diffprivlib.accountant import BudgetAccountant

__all__ = ["BudgetAccountant", "models", "tools", "utils"]
