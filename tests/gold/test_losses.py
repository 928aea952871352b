"""What was lost between two moments, and what is still known of it later."""

from __future__ import annotations

import numpy as np

from wirelake.gold.arrays import FOR_EVER
from wirelake.gold.losses import Losses


def between(losses: Losses, *spans: tuple[int, int]) -> list[bool]:
    starts, ends = np.array(spans, np.int64).T
    return list(losses.between(starts, ends).tolist())


def test_a_loss_is_between_two_moments_if_it_begins_before_the_later_and_ends_after_the_earlier() -> None:
    losses = Losses()
    assert between(losses, (0, 100)) == [False]
    losses.add(10, 20)
    losses.add(40, 50)
    assert between(losses, (0, 9), (0, 10), (19, 30), (20, 30), (20, 40), (50, 90)) == [
        False,
        True,
        True,
        False,
        True,
        False,
    ]
    assert losses.covers(np.array([9, 10, 20, 21])).tolist() == [False, True, True, False]


def test_later_it_is_known_that_something_was_lost_and_the_last_loss() -> None:
    losses = Losses()
    assert losses.first_us() == FOR_EVER
    losses.add(10, 20)
    losses.add(40, 30)
    assert (losses.first_us(), losses.spans[-1]) == (10, (40, 40))
    losses.forget()
    assert losses.first_us() == -FOR_EVER
    assert losses.spans == [(40, 40)] and not losses.new
