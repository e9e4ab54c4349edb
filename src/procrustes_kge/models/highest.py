"""The best answers of a question among the scores of all entities, in an order that no machine changes."""

import numpy as np
from jaxtyping import Float, Int

from procrustes_kge.errors import InputError

NOT_NUMBERS = (
    "the model's scores are not numbers (NaN), so no answer is best; "
    "the learning rate may have been too high: train again with a lower one"
)


def highest(scores: Float[np.ndarray, " n"], k: int) -> Int[np.ndarray, " at_most_k"]:
    """Return the places of the k highest scores, or of all if those are fewer, in the order of (−score, place)."""
    if np.isnan(scores).any():
        raise InputError(NOT_NUMBERS)
    # A selection finds the last score that counts, in time linear in n; equal scores are then ordered by place, and
    # the lowest places are kept where not all of them fit.
    k = min(k, len(scores))
    last = np.partition(scores, len(scores) - k)[len(scores) - k]
    above, equal = np.flatnonzero(scores > last), np.flatnonzero(scores == last)
    places = np.concatenate([above, equal[: k - len(above)]])
    return places[np.argsort(-scores[places], kind="stable")]
