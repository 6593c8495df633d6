"""Everything a host runs with, before it runs."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from kcm_host import __version__
from kcm_host.client.auth.connection import Connection
from kcm_host.config.models import HostSettings, TracesSettings
from kcm_host.loading.extensions import Extensions
from kcm_host.loading.quarantine import Quarantined
from kcm_host.observe.trace import start_tracing
from kcm_host.supervise.assembly import Assembly
from kcm_host.supervise.start import Setup

if TYPE_CHECKING:
    from kcm_host.observe.spans import Tracing


class Plan(msgspec.Struct, frozen=True):
    """Everything a host runs with."""

    connection: Connection
    setups: Sequence[Setup]
    quarantined: Mapping[str, Quarantined]
    extensions: Extensions
    bind: str
    start_timeout: timedelta
    shutdown_timeout: timedelta
    #: Whether each controller writes as its own service account.
    service_accounts: bool = False
    tracing: "Tracing | None" = None


def plan(settings: HostSettings, assembly: Assembly, *, connection: Connection) -> Plan:
    """
    Give what a host runs with.

    Raises `TracingUnavailable` when a package for the configured traces is missing.
    """
    return Plan(
        connection=connection,
        setups=assembly.setups,
        quarantined=assembly.quarantined,
        extensions=assembly.extensions,
        bind=settings.http.bind,
        start_timeout=settings.start_timeout,
        shutdown_timeout=settings.shutdown_timeout,
        service_accounts=settings.service_account_credentials,
        tracing=tracing_of(settings.telemetry.traces),
    )


def tracing_of(traces: TracesSettings) -> "Tracing | None":
    """Give the started tracing, None without an exporter; raises `TracingUnavailable`."""
    if traces.exporter == "none":
        return None
    return start_tracing(
        traces.exporter,
        endpoint=traces.endpoint,
        sample_ratio=traces.sample_ratio,
        version=__version__,
    )
