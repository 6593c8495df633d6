"""Observability: logs, metrics, traces, HTTP endpoints and the watchdog."""
