"""What is refused, and in which words."""

import pytest

from onlooker.errors import OnlookerError


def assert_refused(act, *words):
    """A call ends in one sentence for a user, with all of these words."""
    with pytest.raises(OnlookerError) as refusal:
        act()
    assert all(word in str(refusal.value) for word in words), str(refusal.value)
