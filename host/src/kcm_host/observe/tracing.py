"""
Tracing: one span for each sync and one for each write in it.

OpenTelemetry is imported by `start_tracing` alone. Without it `NoTracing` takes its place.
"""

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Literal, Protocol, Self

import msgspec
from cachetools import FIFOCache

from kcm_host.api.kinds import Key
from kcm_host.api.sync import Cause, SyncOutcome
from kcm_host.api.writes import Write, WriteResponse

Exporter = Literal["otlp", "console"]
#: The extra that has the OTLP exporter; the SDK is always installed.
EXTRA = "kcm-host[otlp]"
#: The event of a write arrives within moments, so older writes are not kept.
MAX_WRITE_LINKS = 1000

#: Trace id and span id.
SpanContext = tuple[int, int]


class WriteSpan(Protocol):
    """The span of one write, retries by the sender included; a child of the current span."""

    def answered(self, status: int, *, attempts: int = 1) -> None:
        """Record the HTTP status of the response and the number of attempts."""


class SyncSpan(Protocol):
    """The span of one running sync."""

    @property
    def context(self) -> SpanContext | None:
        """
        Trace id and span id, for the causes to which this sync leads.

        None when the span is not sampled: a link to it would have no target.
        """

    def finish(
        self,
        outcome: SyncOutcome,
        *,
        reads: int,
        error: str = "",
        retry_after_seconds: float | None = None,
    ) -> None:
        """Record the result of the sync, as in `SyncRecord`. To be called inside the `with`."""

    def write(self, write: Write) -> AbstractContextManager[WriteSpan]:
        """Return the span of one write: `with span.write(write) as sent:` around the request."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class Tracing(Protocol):
    """The source of the spans of a host."""

    def sync(
        self,
        controller: str,
        key: Key,
        *,
        attempt: int,
        causes: tuple[Cause, ...],
        merged: int,
        queued_seconds: float,
    ) -> SyncSpan:
        """
        Begin the span of one sync.

        Used as `with tracing.sync(...) as span:` around the sync, in its task: the span is the
        current one inside, so that a plugin's own spans become its children. `merged` counts
        all causes, of which the first 16 are shown.
        """

    def stop(self, timeout_seconds: float) -> None:
        """
        Export the remaining spans, then end.

        Blocks for at most `timeout_seconds`; spans not exported by then are lost, with a warning.
        """


# An object instead of None: a sync is the same code with and without traces, and the spans cost two
# calls.
class NoTracing:
    """Tracing that is off: every span is the same one, which does nothing."""

    def sync(
        self,
        controller: str,
        key: Key,
        *,
        attempt: int,
        causes: tuple[Cause, ...],
        merged: int,
        queued_seconds: float,
    ) -> "NoSpan":
        """See `Tracing.sync`."""
        return NO_SPAN

    def stop(self, timeout_seconds: float) -> None:
        """See `Tracing.stop`."""


class NoSpan:
    """The span of a sync or a write while tracing is off."""

    context: SpanContext | None = None

    def finish(
        self,
        outcome: SyncOutcome,
        *,
        reads: int,
        error: str = "",
        retry_after_seconds: float | None = None,
    ) -> None:
        """See `SyncSpan.finish`."""

    def write(self, _write: Write) -> "NoSpan":
        """See `SyncSpan.write`."""
        return self

    def answered(self, status: int, *, attempts: int = 1) -> None:
        """See `WriteSpan.answered`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Do nothing."""


NO_SPAN = NoSpan()


class WriteLinks:
    """The last writes of one controller with the spans of their syncs."""

    def __init__(self) -> None:
        self._spans: FIFOCache[tuple[str, str, str], SpanContext] = FIFOCache(MAX_WRITE_LINKS)

    def remember(self, write: Write, response: WriteResponse, span: SpanContext | None) -> None:
        """Keep the span of a write, by the resource version that the write led to."""
        # Without a version the event of the write cannot be recognized.
        if span is None or not response.resource_version:
            return
        self._spans[str(write.kind), str(write.key), response.resource_version] = span

    def linked(self, causes: tuple[Cause, ...]) -> tuple[Cause, ...]:
        """
        Return the causes, each event of an own write with a link to the sync that wrote.

        To be called when a sync begins: the event may arrive before the response to the write.
        """
        return tuple(map(self._link, causes)) if self._spans else causes

    def _link(self, cause: Cause) -> Cause:
        span = self._spans.get((cause.kind, cause.object, cause.resource_version))
        return cause if span is None else msgspec.structs.replace(cause, link=span)


class NoWriteLinks(WriteLinks):
    """The links of writers without a controller, which all of them share."""

    def remember(self, write: Write, response: WriteResponse, span: SpanContext | None) -> None:
        """Keep nothing."""


NO_WRITE_LINKS = NoWriteLinks()


class TracingUnavailable(Exception):
    """Tracing is configured, but a package that it needs is not installed."""


def start_tracing(
    exporter: Exporter,
    *,
    endpoint: str = "http://127.0.0.1:4318",
    sample_ratio: float = 1.0,
    version: str,
) -> Tracing:
    """
    Set up tracing for the whole process and return the source of its spans.

    `otlp` sends batches to the collector at `endpoint`, over HTTP; `console` prints one JSON
    object a span to stdout. `sample_ratio` is the share of syncs that are traced. A collector
    that is down is no error: it is logged once, and again when it is back.

    Raises `TracingUnavailable`, with the extra to install, when the exporter is missing.
    """
    # The SDK costs 35 ms and 2 MiB, the exporter 90 ms and 5 MiB: imported only where it is used.
    try:
        from opentelemetry import trace  # noqa: PLC0415 - see above

        from kcm_host.observe import otel  # noqa: PLC0415 - see above

        span_exporter = otel.otlp(endpoint) if exporter == "otlp" else otel.console()
    except ImportError as error:
        raise TracingUnavailable(
            f"traces exporter '{exporter}' needs a package that is not installed ({error}); "
            f"install it with: pip install '{EXTRA}'"
        ) from error
    export = otel.SpanExport(span_exporter, sample_ratio=sample_ratio, version=version)
    # Plugins get the global provider from the API; that is how their spans become children.
    trace.set_tracer_provider(export.provider)
    return otel.OtelTracing(export.provider, version=version, stop=export.stop)
