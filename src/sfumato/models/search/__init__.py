"""Private search for settings: a random, hidden number of runs, one charge, only the winner."""

from sfumato.models.search.cost import SearchCost
from sfumato.models.search.search import PrivateSearchCV
