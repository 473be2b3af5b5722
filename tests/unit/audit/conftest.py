import pytest


@pytest.fixture
def done(feda3i):
    """Return a function that runs a command that must succeed, and returns its output."""

    def call(*arguments):
        code, out, err = feda3i(*arguments)
        assert code == 0, err
        return out

    return call
