"""How spans leave the process: sampling, batches, the exporter, and its complaints."""

import logging
import sys
import threading
from collections.abc import Sequence
from urllib.parse import urlsplit

from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    ConsoleSpanExporter,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from kcm_host.observe.logging import OncePerFact

log = logging.getLogger(__name__)

TRACES_PATH = "/v1/traces"


class ExportErrors(logging.Handler):
    """
    Passes on what OpenTelemetry logs, each message once until delivery works again.

    A collector that is down is one fact; the libraries report it at every batch and retry.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._once = OncePerFact()
        self._logger = logging.getLogger("opentelemetry")
        self._logger.addHandler(self)
        self._logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        """Log the record as one of ours if it is news."""
        if self._once.say((record.name, record.msg), ""):
            pairs = {"reason": record.getMessage(), "source": record.name}
            known = record.exc_info
            log.log(record.levelno, "traces in trouble", extra={"kv": pairs}, exc_info=known)

    def settle(self) -> None:
        """Take all trouble as over."""
        if self._once.clear():
            log.info("traces are delivered again")

    def leave(self) -> None:
        """Let the libraries log as before."""
        self._logger.removeHandler(self)
        self._logger.propagate = True


class ReportingExporter(SpanExporter):
    """An exporter that also ends complaints when a batch has arrived."""

    def __init__(self, exporter: SpanExporter, complaints: ExportErrors) -> None:
        self._exporter = exporter
        self._complaints = complaints
        self._ended = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Deliver one batch."""
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self._complaints.settle()
        return result

    def shutdown(self) -> None:
        """End waits for a retry, and refuse further batches; once, however often it is called."""
        if not self._ended:
            self._ended = True
            self._exporter.shutdown()


class ExportProcessor:
    """The SDK, set up for one exporter; `provider` makes the tracers."""

    def __init__(self, exporter: SpanExporter, *, sample_ratio: float, version: str) -> None:
        self._complaints = ExportErrors()
        self._exporter = ReportingExporter(exporter, self._complaints)
        names = {"service.name": "kcm-host", "service.version": version}
        # Of the SDK's own accord, what the program says would win over what the operator says.
        resource = Resource.create(names).merge(OTELResourceDetector().detect())
        self.provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(sample_ratio)),
            resource=resource,
            shutdown_on_exit=False,
        )
        self.provider.add_span_processor(BatchSpanProcessor(self._exporter))

    def stop(self, timeout_seconds: float) -> None:
        """Deliver what is left within the time, then shut down."""
        # The SDK's own shutdown takes no time limit from here and waits for 30 s.
        flush = threading.Thread(target=self.provider.shutdown, daemon=True)
        flush.start()
        flush.join(timeout_seconds)
        if flush.is_alive():
            pairs = {"seconds": timeout_seconds}
            log.warning("spans lost: not delivered in time at stop", extra={"kv": pairs})
            self._exporter.shutdown()
        self._complaints.leave()


def console() -> SpanExporter:
    """
    Give an exporter that prints one JSON object a line to stdout.

    Not to stderr, where the logs go: spans can be piped to a program while logs stay readable.
    """
    return ConsoleSpanExporter(out=sys.stdout, formatter=lambda span: f"{span.to_json(None)}\n")


def otlp(endpoint: str) -> SpanExporter:
    """
    Give an exporter to a collector, OTLP over HTTP.

    `endpoint` is a base URL, to which `/v1/traces` is added as OpenTelemetry specifies; one that
    ends with it is taken as it is. Headers and certificates come from the standard
    `OTEL_EXPORTER_OTLP_*` variables. Raises `ImportError` without its package.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - another extra
        OTLPSpanExporter,
    )

    parts = urlsplit(endpoint)
    path = parts.path.rstrip("/").removesuffix(TRACES_PATH) + TRACES_PATH
    return OTLPSpanExporter(endpoint=parts._replace(path=path).geturl())
