"""Laws that the tests of many rooms state."""

import pytest
import torch

from procrustes_kge.errors import InputError


def refused(call, **named):
    """Call what must be refused, with a message that explains itself; return the message."""
    with pytest.raises(InputError) as refusal:
        call()
    return explained(str(refusal.value), **named)


def explained(message, *, setting, seen, remedy):
    """Return a message that names the setting (or the file, the argument), the value seen, and a remedy."""
    for role, part in {"setting": setting, "value seen": seen, "remedy": remedy}.items():
        assert str(part) in message, f"the {role} {str(part)!r} is not in: {message}"
    assert "\n" not in message, f"more than one line: {message}"
    return message


def slow_but(quick, values):
    """Return parameters, one of each value, of which `make test` runs the quick ones and `make slow` the others."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.slow) for value in values]


def is_orthogonal(rotations):
    """Say whether matrices are orthogonal to the last digit of float32."""
    exact = rotations.double()
    return float((exact @ exact.mT - torch.eye(exact.shape[-1])).abs().max()) < 1e-6
