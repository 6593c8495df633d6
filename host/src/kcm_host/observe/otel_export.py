"""The export of spans: sampling, batches, the exporter, and the log of export errors."""

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

from kcm_host.observe.deduplication import LogOnce

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
