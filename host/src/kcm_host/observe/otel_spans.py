"""The spans of OpenTelemetry for syncs and writes; see `tracing` for what each method does."""

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
from kcm_host.api.sync import Cause, SyncOutcome
from kcm_host.api.writes import Write
from kcm_host.observe.logging import one_line
from kcm_host.observe.metrics import FAILED
from kcm_host.observe.trace_context import SpanIds, enter_span, leave_span

MAX_CAUSE_EVENTS = 16
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
#: The parent of a sync span is never the span that is current in the worker.
_ROOT = Context()


class OtelTracing:
    """`Tracing` with the spans of one tracer provider."""

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
    ) -> "OtelSyncSpan":
        """See `Tracing.sync`."""
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
        return OtelSyncSpan(self._tracer, span)

    def stop(self, timeout_seconds: float) -> None:
        """See `Tracing.stop`."""
        self._stop(timeout_seconds)


class OtelSyncSpan:
    """`SyncSpan` of OpenTelemetry."""

    def __init__(self, tracer: Tracer, span: Span) -> None:
        self._tracer = tracer
        self._span = span
        self._token: Token[Context] | None = None
        self._ids: Token[SpanIds | None] | None = None

    @property
    def context(self) -> tuple[int, int] | None:
        """See `SyncSpan.context`."""
        own = self._span.get_span_context()
        return (own.trace_id, own.span_id) if own.trace_flags.sampled else None

    def finish(
        self,
        outcome: SyncOutcome,
        *,
        reads: int,
        error: str = "",
        retry_after_seconds: float | None = None,
    ) -> None:
        """See `SyncSpan.finish`."""
        if not self._span.is_recording():
            return
        self._span.set_attributes({"kcm.outcome": outcome, "kcm.reads": reads})
        if retry_after_seconds is not None:
            self._span.set_attribute("kcm.retry_after_seconds", retry_after_seconds)
        if outcome in FAILED:
            self._span.set_status(StatusCode.ERROR, error)

    def write(self, write: Write) -> "OtelWriteSpan":
        """See `SyncSpan.write`."""
        return OtelWriteSpan(self._tracer, write)

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


class OtelWriteSpan:
    """`WriteSpan` of OpenTelemetry."""

    def __init__(self, tracer: Tracer, write: Write) -> None:
        self._tracer = tracer
        self._write = write

    def answered(self, status: int, *, attempts: int = 1) -> None:
        """See `WriteSpan.answered`."""
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
    contexts = dict.fromkeys(cause.link for cause in causes if cause.link is not None)
    return [
        Link(SpanContext(trace_id, span_id, is_remote=False, trace_flags=_SAMPLED))
        for trace_id, span_id in contexts
    ]


def _add_causes(span: Span, causes: tuple[Cause, ...], merged: int) -> None:
    """Add an event for each of the first 16 causes, at its own time, and one for the rest."""
    # Both clocks are read at each sync, because the wall clock may have been set meanwhile.
    epoch = time.time_ns() - time.monotonic_ns()
    for cause in causes[:MAX_CAUSE_EVENTS]:
        span.add_event(
            cause.reason,
            {
                "kcm.kind": cause.kind,
                "kcm.object": cause.object,
                "kcm.resource_version": cause.resource_version,
            }
            if cause.kind
            else None,
            timestamp=epoch + int(cause.received * 1e9),
        )
    shown = min(len(causes), MAX_CAUSE_EVENTS)
    if merged > shown:
        span.add_event("more causes", {"kcm.causes": merged - shown})
