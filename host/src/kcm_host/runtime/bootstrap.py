"""The configuration of a host: its controllers and extensions, from validated settings."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec

from kcm_host import __version__
from kcm_host.api.writes import Permission
from kcm_host.client.auth.connection import Connection
from kcm_host.config.errors import ConfigError, Problem, suggest
from kcm_host.config.load import Loaded, plugin_warnings, validate_plugin_settings
from kcm_host.config.models import HostSettings, TracesSettings
from kcm_host.config.tree import Origin
from kcm_host.observe.tracing import NoTracing, Tracing, start_tracing
from kcm_host.plugins.extensions import Extensions, load_extensions
from kcm_host.plugins.finder import Candidate, find
from kcm_host.plugins.hookimpls import CONTROLLER, EXTENSION
from kcm_host.plugins.loader import load
from kcm_host.plugins.plugin import Plugin
from kcm_host.plugins.quarantine import BrokenPlugin, Quarantined, Stage, guarded
from kcm_host.runtime.controller_run import ControllerConfig

#: What replaces controllers of kube-controller-manager, for advice to those who lack it.
DISTRIBUTIONS: Final = {
    "clusterrole-aggregation": "kcm-host-clusterrole-aggregation",
    "clusterrole-aggregation-controller": "kcm-host-clusterrole-aggregation",
    "resource-claim-controller": "kcm-host-resourceclaim",
    "resourceclaim": "kcm-host-resourceclaim",
    "resourceclaim-controller": "kcm-host-resourceclaim",
    "resourcequota": "kcm-host-resourcequota",
    "resourcequota-controller": "kcm-host-resourcequota",
    "service-cidr-controller": "kcm-host-servicecidrs",
    "service-cidrs-controller": "kcm-host-servicecidrs",
    "servicecidrs": "kcm-host-servicecidrs",
    "ttl": "kcm-host-ttl",
    "ttl-controller": "kcm-host-ttl",
}

_OTHERS_WITH_SUFFIX: Final = """
bootstrap-signer certificatesigningrequest-approving certificatesigningrequest-cleaner
certificatesigningrequest-signing cloud-node-lifecycle cronjob daemonset deployment
device-taint-eviction disruption endpoints endpointslice endpointslice-mirroring ephemeral-volume
garbage-collector horizontal-pod-autoscaler job kube-apiserver-serving-clustertrustbundle-publisher
legacy-serviceaccount-token-cleaner namespace node-ipam node-lifecycle node-route
persistentvolume-attach-detach persistentvolume-binder persistentvolume-expander
persistentvolume-protection persistentvolumeclaim-protection pod-garbage-collector
podcertificaterequest-cleaner podgroup-protection replicaset replicationcontroller
resourcepoolstatusrequest root-ca-certificate-publisher selinux-warning service-lb serviceaccount
serviceaccount-token statefulset storage-version-migrator storageversion-garbage-collector
taint-eviction token-cleaner ttl-after-finished validatingadmissionpolicy-status
volumeattributesclass-protection
"""

_OTHER_ALIASES: Final = """
attachdetach bootstrapsigner cloud-node-lifecycle cronjob csrapproving csrcleaner csrsigning
daemonset deployment disruption endpoint endpointslice endpointslicemirroring ephemeral-volume
garbagecollector horizontalpodautoscaling job legacy-service-account-token-cleaner namespace
nodeipam nodelifecycle persistentvolume-binder persistentvolume-expander podgc pv-protection
pvc-protection replicaset replicationcontroller root-ca-cert-publisher route service serviceaccount
serviceaccount-token statefulset storage-version-gc svm tokencleaner ttl-after-finished
"""

_OTHERS: Final = frozenset(
    [f"{name}-controller" for name in _OTHERS_WITH_SUFFIX.split()] + _OTHER_ALIASES.split()
)


def is_other_upstream_controller(name: str) -> bool:
    """
    Return whether kube-controller-manager has a controller of this name without a plugin here.

    A third-party plugin may still have the name.
    """
    return name in _OTHERS


def missing_plugins(
    missing: Iterable[str], found: Iterable[Candidate], loaded: Loaded, *, section: str
) -> list[Problem]:
    """Return a problem for each of these names in `section`, which no installed plugin has."""
    installed = sorted({candidate.name for candidate in found})
    return [
        Problem(
            f"no installed plugin is called '{name}'",
            path=section,
            origin=_named_at(loaded, section, name),
            remedy=_remedy(name, installed),
        )
        for name in missing
    ]


def _remedy(name: str, installed: list[str]) -> str:
    if name in DISTRIBUTIONS:
        return f"install it: pip install {DISTRIBUTIONS[name]}"
    # Without the long names: all of them are like those of other upstream controllers.
    close = suggest(name, [*installed, *(one for one in DISTRIBUTIONS if "controller" not in one)])
    if close in installed:
        return f"did you mean '{close}'?"
    if close is not None:
        return f"did you mean '{close}'? Then: pip install {DISTRIBUTIONS[close]}"
    known = f"; installed are: {', '.join(installed)}" if installed else ""
    if is_other_upstream_controller(name):
        return f"no plugin for it is known: leave it to kube-controller-manager{known}"
    return f"install the distribution that has it, or remove it{known}"


def _named_at(loaded: Loaded, section: str, name: str) -> Origin:
    parent = loaded.tree.at((section,)) or loaded.tree
    items = parent.value if isinstance(parent.value, list) else []
    node = next((item for item in items if item.value == name), parent.child(name) or parent)
    return node.key or node.origin


class LoadedPlugins(msgspec.Struct, frozen=True):
    """The enabled plugins: those that can run, and those that are broken."""

    controllers: tuple[ControllerConfig, ...]
    #: Broken controllers and extensions, by name.
    quarantined: Mapping[str, Quarantined]
    extensions: Extensions
    warnings: tuple[str, ...]


class PluginVerdict(msgspec.Struct, frozen=True):
    """The result of the validation of one enabled plugin; `broken` is the reason, if it is."""

    role: str
    plugin: Plugin | Quarantined
    broken: Quarantined | None = None
    #: The workers of a controller that can run, and what it may write.
    workers: int | None = None
    permissions: frozenset[Permission] = frozenset()


def load_plugins(loaded: Loaded) -> LoadedPlugins:
    """
    Load the plugins that the configuration names and validate the settings of each.

    A broken plugin is quarantined, and the others run. Raises `ConfigError` with every name that
    is not installed and every invalid setting.
    """
    found = find(CONTROLLER.group)
    loading = load(found, loaded.settings.controllers, host_version=__version__)
    problems = missing_plugins(loading.missing, found, loaded, section="controllers")
    extensions = _extensions(loaded, problems)
    quarantined = {**loading.quarantined, **extensions.loading.quarantined}
    controllers = []
    warnings: list[str] = []
    for name, plugin in loading.plugins.items():
        try:
            controllers.append(_controller_config(loaded, name, plugin))
            warnings += plugin_warnings(loaded, name, plugin.settings_model)
        except ConfigError as error:
            problems += error.problems
        except BrokenPlugin as broken:
            quarantined[name] = broken.quarantined
    # After all plugins were looked at: an operator gets every mistake in one run of `check`.
    if problems:
        raise ConfigError(sorted(problems, key=_place))
    return LoadedPlugins(
        controllers=tuple(controllers),
        quarantined=quarantined,
        extensions=extensions,
        warnings=tuple(warnings),
    )


def plugin_verdicts(plugins: LoadedPlugins) -> tuple[PluginVerdict, ...]:
    """Return a verdict on each enabled plugin: controllers first, sorted by name."""
    extensions = plugins.extensions.loading
    found = [
        *(
            PluginVerdict(
                CONTROLLER.name, one.plugin, workers=one.workers, permissions=one.permissions
            )
            for one in plugins.controllers
        ),
        *(PluginVerdict(EXTENSION.name, plugin) for plugin in extensions.plugins.values()),
    ]
    for name, broken in plugins.quarantined.items():
        role = EXTENSION if name in extensions.quarantined else CONTROLLER
        found.append(PluginVerdict(role.name, broken, broken))
    return tuple(sorted(found, key=lambda verdict: (verdict.role, verdict.plugin.name)))


def _controller_config(loaded: Loaded, name: str, plugin: Plugin) -> ControllerConfig:
    section = loaded.settings.controllers[name]
    settings = _settings(loaded, name, plugin)
    # A broken constructor or `kcm_writes` is found before the start; each run has its own instance.
    permissions = plugin.new(settings).writes()
    return ControllerConfig(
        plugin=plugin,
        settings=settings,
        workers=section.workers or plugin.info.workers,
        qps=section.qps,
        burst=section.burst_size,
        resync_period=section.resync_period,
        permissions=permissions,
    )


def _settings(loaded: Loaded, name: str, plugin: Plugin) -> Any:
    # A validator of the plugin may raise what pydantic does not expect.
    with guarded(plugin.candidate, Stage.VALIDATE, doing="validating its settings"):
        try:
            return validate_plugin_settings(loaded, name, plugin.settings_model)
        except ConfigError as error:
            refused = error
    raise refused


def _extensions(loaded: Loaded, problems: list[Problem]) -> Extensions:
    enabled = loaded.settings.extensions
    # Metadata of all distributions are read for it, which a host without extensions saves.
    found: tuple[Candidate, ...] = find(EXTENSION.group) if enabled else ()
    extensions = load_extensions(found, enabled, host_version=__version__)
    problems += missing_plugins(extensions.loading.missing, found, loaded, section="extensions")
    return extensions


def _place(problem: Problem) -> tuple[bool, int, int]:
    return problem.file is None, problem.line or 0, problem.column or 0


class HostConfig(msgspec.Struct, frozen=True):
    """The configuration of a host, with its loaded plugins."""

    connection: Connection
    controllers: Sequence[ControllerConfig]
    quarantined: Mapping[str, Quarantined]
    extensions: Extensions
    bind: str
    start_timeout: timedelta
    shutdown_timeout: timedelta
    #: Whether each controller writes as its own service account.
    service_accounts: bool = False
    tracing: Tracing = msgspec.field(default_factory=NoTracing)


def bootstrap(
    settings: HostSettings, plugins: LoadedPlugins, *, connection: Connection
) -> HostConfig:
    """
    Return the configuration of a host, with tracing started.

    Raises `TracingUnavailable` when a package for the configured traces is missing.
    """
    return HostConfig(
        connection=connection,
        controllers=plugins.controllers,
        quarantined=plugins.quarantined,
        extensions=plugins.extensions,
        bind=settings.http.bind,
        start_timeout=settings.start_timeout,
        shutdown_timeout=settings.shutdown_timeout,
        service_accounts=settings.service_account_credentials,
        tracing=started_tracing(settings.telemetry.traces),
    )


def started_tracing(traces: TracesSettings) -> Tracing:
    """Return the started tracing, `NoTracing` without an exporter; raises `TracingUnavailable`."""
    if traces.exporter == "none":
        return NoTracing()
    return start_tracing(
        traces.exporter,
        endpoint=traces.endpoint,
        sample_ratio=traces.sample_ratio,
        version=__version__,
    )
