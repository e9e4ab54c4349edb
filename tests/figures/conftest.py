"""A browser for the tests of pages, started once for all of them."""

import pytest

from browser import browsing


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """A browser with WebGL, drawn in software."""
    with browsing(tmp_path_factory.mktemp("profile")) as driver:
        yield driver
