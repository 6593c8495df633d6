"""The current span of the host, for request headers and log lines; needs no OpenTelemetry."""

from contextvars import ContextVar, Token

import msgspec


class SpanIds(msgspec.Struct, frozen=True, gc=False):
    """The ids of a span, and its sampled flag."""

    trace_id: int
    span_id: int
    sampled: bool


# Apart from `tracing`, because each log line needs it, and `tracing` imports the whole plugin API,
# which `--help` would have to wait for.
#: The innermost span of the host's own; None outside of syncs and while tracing is off.
_current: ContextVar[SpanIds | None] = ContextVar("kcm_host_span", default=None)


def enter_span(ids: SpanIds) -> Token[SpanIds | None]:
    """Make this the current span, and return the token that `leave_span` needs."""
    return _current.set(ids)


def leave_span(token: Token[SpanIds | None]) -> None:
    """Restore the span that was current before."""
    _current.reset(token)


def trace_headers() -> dict[str, str]:
    """Return the request header with the current span (W3C Trace Context); empty without one."""
    ids = _current.get()
    if ids is None:
        return {}
    return {"traceparent": f"00-{ids.trace_id:032x}-{ids.span_id:016x}-{ids.sampled:02x}"}


def trace_pairs() -> dict[str, str]:
    """Return the ids of the current span for a log line; empty when it is not sampled."""
    ids = _current.get()
    if ids is None or not ids.sampled:
        return {}
    return {"trace_id": f"{ids.trace_id:032x}", "span_id": f"{ids.span_id:016x}"}
