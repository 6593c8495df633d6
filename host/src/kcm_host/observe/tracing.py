"""
One span for each sync, and one for each write in it.

Imports OpenTelemetry, so other modules import this one for type checking only; what they need at
run time is `trace.start_tracing`.
"""

import time
from asyncio import CancelledError
from collections.abc import Callable, Iterable
from contextvars import Token
from types import TracebackType
from typing import Self

from opentelemetry import context as context_api
from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    Tracer,
    TracerProvider,
    set_span_in_context,
)

from kcm_host.api.errors import ApiError
from kcm_host.api.kinds import Key
from kcm_host.api.records import Cause
from kcm_host.api.writes import Write
from kcm_host.observe.logging import SpanIds, enter_span, leave_span, one_line

CAUSES_SHOWN = 16
FAILED = frozenset({"error", "timeout"})
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
#: A span without a parent, whatever happens to be current where the sync is called.
_ROOT = Context()


class Tracing:
    """Makes the spans of a host; exists only while tracing is on."""

    def __init__(
        self, provider: TracerProvider, *, version: str, stop: Callable[[float], None]
    ) -> None:
        self._tracer = provider.get_tracer("kcm-host", version)
        self._stop = stop

    def sync(
        self,
        controller: str,
        key: Key,
        *,
        attempt: int,
        causes: tuple[Cause, ...],
        merged: int,
        queued_seconds: float,
    ) -> "SyncSpan":
        """
        Begin the span of one sync.

        Used as `with tracing.sync(...) as span:` around the sync, in its task: the span is the
        current one inside, so that a plugin's own spans become its children. `merged` counts
        all causes, of which the first 16 are shown.
        """
        attributes: dict[str, str | int | float] = {
            "kcm.controller": controller,
            "kcm.key": str(key),
            "kcm.attempt": attempt,
            "kcm.causes": merged,
            "kcm.queued_seconds": queued_seconds,
        }
        span = self._tracer.start_span(
            f"sync {controller}", context=_ROOT, attributes=attributes, links=_links(causes)
        )
        if span.is_recording():
            _add_causes(span, causes, merged)
        return SyncSpan(self._tracer, span)

    def stop(self, timeout_seconds: float) -> None:
        """
        Deliver the spans that are left, then end.

        Blocks for at most `timeout_seconds`; what is not delivered by then is lost, with a
        warning.
        """
        self._stop(timeout_seconds)


class SyncSpan:
    """The span of one running sync."""

    def __init__(self, tracer: Tracer, span: Span) -> None:
        self._tracer = tracer
        self._span = span
        self._token: Token[Context] | None = None
        self._ids: Token[SpanIds | None] | None = None

    @property
    def context(self) -> tuple[int, int] | None:
        """
        Trace and span id, to be kept in causes that this sync gives rise to.

        None when the span is not sampled: a link to it would lead nowhere.
        """
        own = self._span.get_span_context()
        return (own.trace_id, own.span_id) if own.trace_flags.sampled else None

    def finish(
        self,
        outcome: str,
        *,
        reads: int,
        error: str = "",
        retry_after_seconds: float | None = None,
    ) -> None:
        """Say how the sync ended, in the words of `SyncRecord`. To be called inside the `with`."""
        if not self._span.is_recording():
            return
        self._span.set_attributes({"kcm.outcome": outcome, "kcm.reads": reads})
        if retry_after_seconds is not None:
            self._span.set_attribute("kcm.retry_after_seconds", retry_after_seconds)
        if outcome in FAILED:
            self._span.set_status(StatusCode.ERROR, error)

    def write(self, write: Write) -> "WriteSpan":
        """Give the span of one write: `with span.write(write) as sent:` around the request."""
        return WriteSpan(self._tracer, write)

    def __enter__(self) -> Self:
        self._token = context_api.attach(set_span_in_context(self._span))
        self._ids = enter_span(_ids(self._span))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._token is not None:
            context_api.detach(self._token)
        if self._ids is not None:
            leave_span(self._ids)
        if error is not None and not isinstance(error, CancelledError):
            self._span.set_status(StatusCode.ERROR, one_line(error))
        self._span.end()


class WriteSpan:
    """The span of one write, retries by the sender included; a child of what is current."""

    def __init__(self, tracer: Tracer, write: Write) -> None:
        self._tracer = tracer
        self._write = write

    def answered(self, status: int, *, attempts: int = 1) -> None:
        """Say what the server answered, and to the how-manieth attempt."""
        self._span.set_attributes({"http.response.status_code": status, "kcm.attempts": attempts})

    def __enter__(self) -> Self:
        write = self._write
        attributes = {
            "kcm.verb": write.verb,
            "kcm.kind": str(write.kind),
            "kcm.object": str(write.key),
        }
        if write.subresource:
            attributes["kcm.subresource"] = write.subresource
        self._span = self._tracer.start_span(
            f"{write.verb} {write.kind}", kind=SpanKind.CLIENT, attributes=attributes
        )
        self._ids = enter_span(_ids(self._span))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        leave_span(self._ids)
        if isinstance(error, ApiError):
            self._span.set_attribute("http.response.status_code", error.status)
        if error is not None:
            self._span.set_status(StatusCode.ERROR, one_line(error))
        self._span.end()


def _ids(span: Span) -> SpanIds:
    own = span.get_span_context()
    return SpanIds(own.trace_id, own.span_id, own.trace_flags.sampled)


def _links(causes: Iterable[Cause]) -> list[Link]:
    earlier = dict.fromkeys(cause.link for cause in causes if cause.link is not None)
    return [
        Link(SpanContext(trace_id, span_id, is_remote=False, trace_flags=_SAMPLED))
        for trace_id, span_id in earlier
    ]


def _add_causes(span: Span, causes: tuple[Cause, ...], merged: int) -> None:
    """Add an event for each of the first 16 causes, at its own time, and one for the rest."""
    # Both clocks are read anew: the wall clock may have been set since the last sync.
    epoch = time.time_ns() - time.monotonic_ns()
    for cause in causes[:CAUSES_SHOWN]:
        span.add_event(
            cause.reason,
            {"kcm.kind": cause.kind, "kcm.object": cause.object, "kcm.version": cause.version}
            if cause.kind
            else None,
            timestamp=epoch + int(cause.received * 1e9),
        )
    shown = min(len(causes), CAUSES_SHOWN)
    if merged > shown:
        span.add_event("more causes", {"kcm.causes": merged - shown})
