"""Switches tracing on; OpenTelemetry is imported then and not before."""

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from kcm_host.observe.tracing import Tracing

Exporter = Literal["otlp", "console"]
#: The extra that has the OTLP exporter; the SDK is always there.
EXTRA = "kcm-host[otlp]"


class TracingUnavailable(Exception):
    """Tracing is configured, but a package that it needs is not installed."""


def start_tracing(
    exporter: Exporter,
    *,
    endpoint: str = "http://127.0.0.1:4318",
    sample_ratio: float = 1.0,
    version: str,
) -> "Tracing":
    """
    Set tracing up for the whole process and give what makes its spans.

    `otlp` sends batches to the collector at `endpoint`, over HTTP; `console` prints one JSON
    object a span to stdout. `sample_ratio` is the share of syncs that are traced. A collector
    that is down is no error: it is logged once, and again when it is back.

    Raises `TracingUnavailable`, with the extra to install, when the exporter is missing.
    """
    # The SDK costs 35 ms and 2 MiB, the exporter 90 ms and 5 MiB: only who traces pays them.
    try:
        from opentelemetry import trace  # noqa: PLC0415 - see above

        from kcm_host.observe import otel_export, tracing  # noqa: PLC0415 - see above

        sink = otel_export.otlp(endpoint) if exporter == "otlp" else otel_export.console()
    except ImportError as error:
        raise TracingUnavailable(
            f"traces exporter '{exporter}' needs a package that is not installed ({error}); "
            f"install it with: pip install '{EXTRA}'"
        ) from error
    way = otel_export.ExportProcessor(sink, sample_ratio=sample_ratio, version=version)
    # Plugins ask the API for the global provider; that is how their spans join ours.
    trace.set_tracer_provider(way.provider)
    return tracing.Tracing(way.provider, version=version, stop=way.stop)
