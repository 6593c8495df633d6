"""Tracing when its collector is down, its packages are missing, or it is off."""

import json
import socket
import subprocess
import sys
import time

import pytest
from host.observe.collector import Collector
from logged import logged

from kcm_host.api.kinds import Key
from kcm_host.observe.tracing import Tracing, start_tracing


def a_sync(tracing: Tracing) -> None:
    """Trace one sync."""
    with tracing.sync("ttl", Key("n1"), attempt=1, causes=(), merged=0, queued_seconds=0.0) as span:
        span.finish("done", reads=0)


def closed_port() -> int:
    """Return a port at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def test_stop_is_not_delayed_by_a_collector_that_is_down(caplog: pytest.LogCaptureFixture) -> None:
    """With spans left and nobody to take them, stop ends in time, with one warning about them."""
    tracing = start_tracing("otlp", endpoint=f"http://127.0.0.1:{closed_port()}", version="1")
    a_sync(tracing)
    began = time.monotonic()
    tracing.stop(0.2)
    assert time.monotonic() - began < 30
    assert logged(caplog, "spans lost: not exported in time at stop") == [{"seconds": 0.2}]


def test_export_errors_are_logged_once_until_recovery(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    """Batches that cannot be delivered are one line in the log, and one when they can be again."""
    caplog.set_level("INFO")
    # The SDK's own variable: a batch every 20 ms, so that the test sees several.
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    collector.status = 400
    tracing = start_tracing("otlp", endpoint=collector.url, version="1")

    def deliver(batches: int) -> None:
        goal = len(collector.paths) + batches
        end = time.monotonic() + 60
        while len(collector.paths) < goal:
            assert time.monotonic() < end
            a_sync(tracing)
            time.sleep(0.01)

    try:
        deliver(4)
        failed = [kv for kv in logged(caplog, "trace export failing") if "400" in kv["reason"]]
        assert len(failed) == 1
        collector.status = 200
        deliver(4)
    finally:
        tracing.stop(60)
    assert len(logged(caplog, "trace export recovered")) == 1


CHILDREN = """
from opentelemetry import trace
from kcm_host.api.kinds import Key
from kcm_host.observe.tracing import start_tracing

tracer = trace.get_tracer("acme")  # as a plugin module does when it is imported
tracing = start_tracing("console", version="1")
with tracing.sync("acme", Key("n1"), attempt=1, causes=(), merged=0, queued_seconds=0.0):
    with tracer.start_as_current_span("look up zone"):
        pass
tracing.stop(10)
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


def test_spans_of_plugins_are_children_of_the_sync() -> None:
    """What a plugin traces through the API is a child of its sync, one JSON object a line."""
    done = run(CHILDREN)
    child, parent = (json.loads(line) for line in done.stdout.splitlines())
    assert child["name"] == "look up zone"
    assert parent["name"] == "sync acme"
    assert child["parent_id"] == parent["context"]["span_id"]
    assert done.stderr == ""


IMPORTS = """
import sys
import kcm_host.observe.logging, kcm_host.observe.metrics, kcm_host.observe.endpoints
import kcm_host.observe.tracing, kcm_host.observe.watchdog
print(sorted({name.partition(".")[0] for name in sys.modules}
             & {"opentelemetry", "prometheus_client", "requests"}))
"""


def test_nothing_is_imported_before_it_is_used() -> None:
    """Without tracing and before a scrape, neither OpenTelemetry nor Prometheus is loaded."""
    assert run(IMPORTS).stdout == "[]\n"
