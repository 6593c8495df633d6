"""Which span the running code belongs to, for those who may not import OpenTelemetry."""

from contextvars import ContextVar, Token

import msgspec


class SpanIds(msgspec.Struct, frozen=True, gc=False):
    """The ids of a span, and whether it is recorded."""

    trace_id: int
    span_id: int
    sampled: bool


#: The innermost span of the host's own, None outside of syncs and while tracing is off.
_current: ContextVar[SpanIds | None] = ContextVar("kcm_host_span", default=None)


def enter_span(ids: SpanIds) -> Token[SpanIds | None]:
    """Make this the current span, and return what `leave_span` needs."""
    return _current.set(ids)


def leave_span(token: Token[SpanIds | None]) -> None:
    """Make the span before this one the current one again."""
    _current.reset(token)


def trace_headers() -> dict[str, str]:
    """Return the header that carries the current span to the server (W3C Trace Context)."""
    ids = _current.get()
    if ids is None:
        return {}
    return {"traceparent": f"00-{ids.trace_id:032x}-{ids.span_id:016x}-{ids.sampled:02x}"}


def trace_pairs() -> dict[str, str]:
    """Return what a log line says of the current span; nothing of one that is not recorded."""
    ids = _current.get()
    if ids is None or not ids.sampled:
        return {}
    return {"trace_id": f"{ids.trace_id:032x}", "span_id": f"{ids.span_id:016x}"}
