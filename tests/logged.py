"""Log records of the host as tests read them."""

import logging
from typing import Any

import pytest


def pairs_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the key-value pairs of one record."""
    found: dict[str, Any] = vars(record).get("kv", {})
    return found


def logged(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, Any]]:
    """Return the pairs of every record of one event."""
    return [pairs_of(record) for record in caplog.records if record.getMessage() == event]
