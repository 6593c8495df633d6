"""HTTP/1.1 messages: the bytes of a request, and a response read from the bytes that arrive."""

from collections.abc import Mapping

import msgspec
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

#: Bytes in succession that bring no part of a body: a head, trailers, chunk extensions, responses
#: that only announce the real one. Go's client stops at 1 MiB; heads of API servers have 1 KiB.
MAX_HEAD_BYTES = 64 << 10
#: Methods whose request names the length of its body also when it is empty.
_METHODS_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
#: The parser also reads others, whose connections follow other rules.
_VERSIONS = ("1.1", "1.0")

RawHeaders = tuple[tuple[bytes, bytes], ...]


class BadResponse(ConnectionError):
    """What came is no HTTP/1.1 response, or not one that was asked for."""


class Response(msgspec.Struct, frozen=True):
    """A response; `is_complete` is False when its body was longer than the limit and cut off."""

    status: int
    body: bytes = b""
    raw_headers: RawHeaders = ()
    is_complete: bool = True

    def header(self, name: bytes) -> str:
        """Return the values of a header, whose name is given in lower case; empty without."""
        # The parser leaves the white space after a value.
        values = [value.strip() for key, value in self.raw_headers if key.lower() == name]
        return b", ".join(values).decode("latin-1")


def encode_request(
    method: str, target: str, *, headers: Mapping[str, str], body: bytes = b""
) -> bytes:
    """
    Return the bytes of a request.

    Raise `ValueError` for a target or a header that would change the shape of the message.
    """
    if not target.isascii() or not target.isprintable() or " " in target:
        raise ValueError(f"not usable as the target of a request: {target[:200]!r}")
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    # Every header adds one line end; more of them are part of a name or a value.
    if lines.count("\n") != len(headers) or lines.count("\r") != len(headers):
        raise ValueError("the name or value of a header has a line end")
    if body or method in _METHODS_WITH_BODY:
        lines = f"{lines}Content-Length: {len(body)}\r\n"
    return f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + body


class ResponseReader:
    """
    Reads the responses that arrive on one connection, one after another.

    `status` is 0 until the head of a final response has arrived. `parts` is what has arrived of
    the body and was not taken, `size` the length of the body so far. `is_complete` is set at the
    end of the response; `is_reusable` then says whether another one can follow.
    """

    __slots__ = (
        "_headers",
        "_parser",
        "_without_body",
        "is_complete",
        "is_reusable",
        "parts",
        "size",
        "status",
    )

    def __init__(self) -> None:
        # The parser and this object refer to each other until `close`.
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        self.start()

    def start(self) -> None:
        """Prepare for the response to the next request."""
        self._headers: list[tuple[bytes, bytes]] = []
        self._without_body = 0
        self.status = 0
        self.parts: list[bytes] = []
        self.size = 0
        self.is_complete = False
        self.is_reusable = False

    def close(self) -> None:
        """Stop reading for good."""
        self._parser = None

    @property
    def raw_headers(self) -> RawHeaders:
        """The headers, and after them the trailers."""
        return tuple(self._headers)

    def feed(self, data: bytes) -> None:
        """Read more bytes; raise `BadResponse` when they are no response."""
        size = self.size
        if self._parser is None:
            return
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            raise BadResponse("the protocol was switched, which was not requested") from None
        except HttpParserError as error:
            # What follows a complete response does not change it, however the bytes were cut.
            self.is_reusable = False
            if not self.is_complete:
                reason = error.__context__ or error
                raise BadResponse(f"the response is not HTTP/1.1: {reason}") from None
        if self.size != size or self.is_complete:
            self._without_body = 0
            return
        self._without_body += len(data)
        if self._without_body > MAX_HEAD_BYTES:
            raise BadResponse(f"{MAX_HEAD_BYTES >> 10} KiB came without a response or a body")

    def finish(self) -> None:
        """Handle the end of the connection, which is the end of a body without a length."""
        names = {name.lower() for name, _ in self._headers}
        if self.status and not names & {b"content-length", b"transfer-encoding"}:
            self.is_complete = True
        self.is_reusable = False

    # What follows is called by the parser, which raises its own exception in place of theirs.

    def on_message_begin(self) -> None:
        """Stop the parser where another message follows a complete response."""
        if self.is_complete:
            raise BadResponse("a second response")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header or a trailer."""
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Note the end of a head; those below 200 announce another response."""
        parser = self._parser
        if parser is None:
            return
        status, version = parser.get_status_code(), parser.get_http_version()
        if status < 100 or version not in _VERSIONS:
            raise BadResponse(f"status {status} in version {version}")
        if status >= 200:
            self.status = status

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body."""
        self.parts.append(body)
        self.size += len(body)

    def on_message_complete(self) -> None:
        """Note the end of a message."""
        if not self.status:
            self._headers.clear()
        elif self._parser is not None:
            self.is_complete = True
            self.is_reusable = self._parser.should_keep_alive()
