"""What an entry-level promise means for a whole record."""

from __future__ import annotations

import math

from sfumato.privacy.distributions import pld_epsilon
from sfumato.privacy.events import EntryEvent, LaplaceEvent
from sfumato.privacy.guarantee import RecordReading


def record_level_guarantee(
    event: EntryEvent, n_entries: int, *, delta: float = 1e-5
) -> RecordReading:
    """Read p releases of one entry each as a single release of the record that holds them.

    The losses of the p entries add up. Unless an atom is hit they are p Laplace losses, so
    ``delta_p(e) = 1 - (1 - atom)**p (1 - delta_Laplace^p(e))``.

    Parameters
    ----------
    event : EntryEvent
        The noise on each entry.
    n_entries : int
        Numbers p of a record.
    delta : float, default=1e-5
        The delta at which epsilon is stated, beside the probability of an atom.

    Returns
    -------
    RecordReading
        The figures for the whole record.
    """
    atom = -math.expm1(n_entries * math.log1p(-event.delta))
    pure = n_entries * event.epsilon
    return RecordReading(
        n_entries=n_entries,
        pure_epsilon=pure,
        epsilon=min(pure, pld_epsilon({LaplaceEvent(event.epsilon): n_entries}, delta)),
        delta=atom + (1 - atom) * delta,
        atom_probability=atom,
    )
