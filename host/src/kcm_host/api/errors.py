"""Errors that cross the border between host and plugins."""


class HostError(Exception):
    """Anything the host raises into a plugin's code."""


#: What plugin code may raise without ending the host. A plugin that calls `sys.exit` in a sync
#: must not take its neighbours along; cancellation and Ctrl-C pass.
PLUGIN_FAILURES: tuple[type[BaseException], ...] = (Exception, SystemExit)


class UndeclaredRead(HostError):
    """A view was asked for a kind that no watch of the controller declares."""


class UndeclaredWrite(HostError):
    """A write was tried that `kcm_writes` does not declare; nothing was sent."""


class WriterClosed(HostError):
    """A writer was used after its sync had ended or was given up; nothing was sent."""


class InvalidKey(HostError):
    """
    A request was tried whose kind and key name no single object; nothing was sent.

    A name and a namespace are one segment of a path each: a request with an empty name would go
    to all objects of the kind.
    """


class Undecodable(HostError):
    """An object exists, but none of its versions fitted the watch's model."""


class ApiError(HostError):
    """
    The server answered with an error.

    `status` is the HTTP status, `reason` the machine-readable reason of the Status object
    (`NotFound`, `Forbidden`), empty when the answer was none. `server_message` is the message of
    that object alone, empty when something else answered, such as a proxy: only this may be shown
    to the users of the cluster. `retry_after_seconds` is set when the server said when to come
    back.
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
    """409: the object changed meanwhile, or a field belongs to somebody else."""


class NotFound(ApiError):
    """404: the object, or the whole API, is not there."""


class Unreachable(HostError):
    """No answer came: refused, cut, timed out. Whether a write arrived is unknown."""

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        #: Nothing was sent: the connection was refused.
        self.refused = refused


class Unreadable(Unreachable):
    """
    An answer came that cannot be used: no JSON, not UTF-8, compressed unasked, or too long.

    Whether a write arrived is unknown, as with every `Unreachable`.
    """
