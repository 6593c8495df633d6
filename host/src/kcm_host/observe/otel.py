"""OpenTelemetry: the spans of syncs and writes (see `tracing`), and their export."""

import logging
import sys
import threading
import time
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Sequence
from contextvars import Token
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from opentelemetry import context as context_api
from opentelemetry.context import Context
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    ConsoleSpanExporter,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import (
    Link,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    Tracer,
    set_span_in_context,
)

from kcm_host.api.errors import ApiError
from kcm_host.api.kinds import Key
from kcm_host.api.sync import Cause, SyncOutcome
from kcm_host.api.writes import Write
from kcm_host.observe.deduplication import LogOnce
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
        # `later` is no error, and a cancelled sync neither: they say nothing about the controller.
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
        # A cancellation is the stop of the host, or a time limit that has its own outcome.
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
    # Each once: one sync may have led to many of the causes.
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


log = logging.getLogger(__name__)

TRACES_PATH = "/v1/traces"


class ExportErrors(logging.Handler):
    """
    A log handler for OpenTelemetry: logs each of its messages once until the export recovers.

    A collector that is down is one fact; the libraries log it at every batch and retry.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._logged = LogOnce()
        self._logger = logging.getLogger("opentelemetry")
        self._logger.addHandler(self)
        # The root logger would write each of their messages a second time.
        self._logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        """Log the record under the host's logger, if it is new."""
        if self._logged.is_new((record.name, record.msg)):
            pairs = {"reason": record.getMessage(), "source": record.name}
            error = record.exc_info
            log.log(record.levelno, "trace export failing", extra={"kv": pairs}, exc_info=error)

    def recovered(self) -> None:
        """Treat all errors as over; logged when there were any."""
        if self._logged.clear():
            log.info("trace export recovered")

    def uninstall(self) -> None:
        """Remove the handler, so that the libraries log as before."""
        self._logger.removeHandler(self)
        self._logger.propagate = True


class ReportingExporter(SpanExporter):
    """An exporter that reports each exported batch to `ExportErrors`."""

    def __init__(self, exporter: SpanExporter, errors: ExportErrors) -> None:
        self._exporter = exporter
        self._errors = errors
        self._is_shut_down = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export one batch."""
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self._errors.recovered()
        return result

    def shutdown(self) -> None:
        """Interrupt waits for a retry and refuse further batches; further calls do nothing."""
        if not self._is_shut_down:
            self._is_shut_down = True
            self._exporter.shutdown()


class SpanExport:
    """The SDK, set up for one exporter; `provider` returns the tracers."""

    def __init__(self, exporter: SpanExporter, *, sample_ratio: float, version: str) -> None:
        self._errors = ExportErrors()
        self._exporter = ReportingExporter(exporter, self._errors)
        names = {"service.name": "kcm-host", "service.version": version}
        # By default the attributes of the program would take precedence over the environment.
        resource = Resource.create(names).merge(OTELResourceDetector().detect())
        self.provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(sample_ratio)),
            resource=resource,
            # The host ends it itself, before the loop ends and within its own time limit.
            shutdown_on_exit=False,
        )
        self.provider.add_span_processor(BatchSpanProcessor(self._exporter))

    def stop(self, timeout_seconds: float) -> None:
        """Export the remaining spans within the time, then shut down."""
        # The shutdown of the SDK has no time limit of ours and waits for 30 s.
        flush = threading.Thread(target=self.provider.shutdown, daemon=True)
        flush.start()
        flush.join(timeout_seconds)
        if flush.is_alive():
            pairs = {"seconds": timeout_seconds}
            log.warning("spans lost: not exported in time at stop", extra={"kv": pairs})
            self._exporter.shutdown()
        self._errors.uninstall()


def console() -> SpanExporter:
    """
    Return an exporter that prints one JSON object a line to stdout.

    Not to stderr, where the logs go: spans can be piped to a program while logs stay readable.
    """
    return ConsoleSpanExporter(out=sys.stdout, formatter=lambda span: f"{span.to_json(None)}\n")


def otlp(endpoint: str) -> SpanExporter:
    """
    Return an exporter to a collector, OTLP over HTTP.

    `endpoint` is a base URL, to which `/v1/traces` is added as OpenTelemetry specifies, unless it
    ends with that already. Headers and certificates come from the standard
    `OTEL_EXPORTER_OTLP_*` variables. Raises `ImportError` without its package.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - another extra
        OTLPSpanExporter,
    )

    parts = urlsplit(endpoint)
    path = parts.path.rstrip("/").removesuffix(TRACES_PATH) + TRACES_PATH
    return OTLPSpanExporter(endpoint=parts._replace(path=path).geturl())
