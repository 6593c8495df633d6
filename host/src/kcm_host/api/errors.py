"""Errors that the host raises into the code of plugins, and one that they raise themselves."""


class Invalid(ValueError):
    """
    A value cannot be used: the fact, and the remedy.

    To be raised in validators of settings: the host shows it with the file, the line and the key.
    """

    def __init__(self, fact: str, remedy: str) -> None:
        # Both are `args`: an exception is copied and unpickled by a call with them.
        super().__init__(fact, remedy)
        self.fact = fact
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.fact}; {self.remedy}"


class HostError(Exception):
    """Anything the host raises into a plugin's code."""


#: What plugin code may raise without ending the host. A plugin that calls `sys.exit` in a sync
#: must not take its neighbours along; cancellation and Ctrl-C pass.
PLUGIN_FAILURES: tuple[type[BaseException], ...] = (Exception, SystemExit)


class UndeclaredRead(HostError):
    """A kind was read that no watch of the controller declares."""


class UndeclaredWrite(HostError):
    """A write that `kcm_writes` does not declare; nothing was sent."""


class WriterClosed(HostError):
    """A writer was used after its sync had ended; nothing was sent."""


class InvalidKey(HostError):
    """
    A request whose kind and key name no single object; nothing was sent.

    A name and a namespace are one segment of a path each: a request with an empty name would go
    to all objects of the kind.
    """


class Undecodable(HostError):
    """An object exists, but none of its versions could be decoded into the model."""


class ApiError(HostError):
    """
    An error response.

    `status` is the HTTP status, `reason` the machine-readable reason of the Status object
    (`NotFound`, `Forbidden`), empty if the body was no Status. `server_message` is the message of
    the Status, empty if something else than the API server responded, such as a proxy: only this
    text may be shown to the users of the cluster. `retry_after_seconds` is the time of
    `Retry-After`.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        reason: str = "",
        causes: frozenset[str] = frozenset(),
        retry_after_seconds: float | None = None,
        server_message: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.causes = causes
        self.retry_after_seconds = retry_after_seconds
        self.server_message = server_message


class Conflict(ApiError):
    """
    The object has changed since it was read, or a field has another owner.

    `status` is 409, or 422 where the finalizers of an object have changed.
    """


class NotFound(ApiError):
    """404: the object or the API does not exist."""


class Unreachable(HostError):
    """No response: refused, cut, timed out. It is unknown whether a write has been done."""

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        #: Nothing was sent: the connection was refused.
        self.refused = refused


class Unreadable(Unreachable):
    """
    A response that cannot be used: no JSON, not UTF-8, compressed, or too long.

    It is unknown whether a write has been done, as with every `Unreachable`.
    """
