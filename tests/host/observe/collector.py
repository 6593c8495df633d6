"""A collector of traces."""

import http.server
import threading

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector(http.server.ThreadingHTTPServer):
    """Takes OTLP over HTTP at a free port and keeps what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Intake)
        self.requests: list[ExportTraceServiceRequest] = []
        self.paths: list[str] = []
        #: What batches are answered with.
        self.status = 200
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def spans(self) -> dict[str, Span]:
        """The spans received so far, by name."""
        return {
            span.name: span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        }

    def close(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class Intake(http.server.BaseHTTPRequestHandler):
    """One batch of spans."""

    server: Collector

    def do_POST(self) -> None:
        """Take a batch."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.paths.append(self.path)
        self.server.requests.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Stay silent."""
