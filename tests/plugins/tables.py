"""Tables of tests."""

from typing import Any

import pytest


def row(name: str, *fields: Any) -> Any:
    """Return one row of a table, called `name` in the report."""
    return pytest.param(*fields, id=name)
