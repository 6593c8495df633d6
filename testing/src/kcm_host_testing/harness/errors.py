"""Errors of the harness, and error responses of its objects."""


class HarnessError(AssertionError):
    """A failed check of the harness, or something that only a test on a server can show."""


class Refused(Exception):
    """An error response to a write, with the status, the reason and the text of an API server."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


def needs_server(what: str) -> HarnessError:
    """Return the error for a request whose result depends on more than the harness knows."""
    return HarnessError(f"the harness cannot tell the result: {what}; test this on a server")
