"""The settings of the host, as pydantic models."""

import math
from datetime import timedelta
from ipaddress import AddressValueError, IPv6Address
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from kcm_host.api.errors import Invalid
from kcm_host.api.settings import NOT_NEGATIVE, Duration

# One keyword holds all values: keys of the file could collide with those of pydantic-settings.
MERGED: Final = "merged"


class MergedSource(PydanticBaseSettingsSource):
    """
    The merged values, or the keywords of a direct construction when there are none.

    The sources of pydantic-settings have no camelCase keys, lines, origins or durations.
    """

    def __init__(
        self, settings_cls: type[BaseSettings], keywords: PydanticBaseSettingsSource
    ) -> None:
        super().__init__(settings_cls)
        self._keywords = keywords

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Return the value under a field's key, None if there is none; it never needs parsing."""
        key = field.alias or field_name
        return self().get(key), key, False

    def __call__(self) -> dict[str, Any]:
        """Return all values, as nested plain data with the keys of the file."""
        given = self._keywords()
        merged: dict[str, Any] = given.get(MERGED, given)
        return merged


_EXAMPLE = "write for example '127.0.0.1:10270' or '[::1]:10270'"
_MAX_PORT = 65535
_MAX_LENGTH = 60
#: The same for JSON schemas, as far as a pattern can express it.
BIND_PATTERN = (
    r"^([^\s/@?#\[\]:]+|\[(?=.*:.*:)[0-9A-Fa-f:.]+(%[^\s/@?#\[\]:]+)?\]):"
    r"([0-5]?[0-9]{1,4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$"
)
ENDPOINT_PATTERN = (
    r"^[Hh][Tt][Tt][Pp][Ss]?://([^\s/?#]*@)?([^\s/?#@:\[\]]+|\[[0-9A-Fa-f:.]+\])(:[0-9]*)?"
    r"([/?#]\S*)?$"
)


def check_bind(bind: Any) -> Any:
    """Return `bind` if it is host:port or not a string; raise an error for pydantic if not."""
    # YAML takes a bare port for a number; as a text it gets the error that names the remedy (F-88).
    if isinstance(bind, int) and not isinstance(bind, bool):
        bind = str(bind)
    if not isinstance(bind, str):
        return bind
    host, colon, port = bind.rpartition(":")
    if not colon and _is_port(port):
        raise Invalid(f"'{port}' is a port without a host", f"write '127.0.0.1:{port}'")
    if not colon:
        raise Invalid(f"'{_short(bind)}' has no port", _EXAMPLE)
    if not _is_port(port):
        raise Invalid(f"'{_short(port)}' is no port", f"write a number from 0 to {_MAX_PORT}")
    if not host:
        raise Invalid(
            f"'{bind}' names no host", f"write '0.0.0.0{bind}' if every interface is meant"
        )
    if any(sign in host for sign in "[]:") and not _is_bracketed(host):
        raise Invalid(f"'{_short(bind)}' is no address", _EXAMPLE)
    if any(sign.isspace() or not sign.isprintable() or sign in "/@?#" for sign in host):
        raise Invalid(f"'{_short(host)}' is no host", _EXAMPLE)
    return bind


def split_bind(bind: str) -> tuple[str, int]:
    """Return host (without brackets) and port of an address that `check_bind` accepts."""
    host, _, port = bind.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def check_endpoint(endpoint: Any) -> Any:
    """Return `endpoint` if it is an HTTP URL or not a string; raise an error if not."""
    if isinstance(endpoint, int) and not isinstance(endpoint, bool):
        endpoint = str(endpoint)
    if not isinstance(endpoint, str):
        return endpoint
    try:
        url = urlsplit(endpoint)
        usable = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
        usable = usable and not any(sign.isspace() or not sign.isprintable() for sign in endpoint)
    except ValueError:
        usable = False
    if not usable:
        raise Invalid(
            "this is no URL of an HTTP server", "write for example 'http://127.0.0.1:4318'"
        )
    return endpoint


def _is_port(text: str) -> bool:
    digits = text.isascii() and text.isdigit() and len(text) <= len(str(_MAX_PORT))
    return digits and int(text) <= _MAX_PORT


def _short(text: str) -> str:
    return text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}..."


def _is_bracketed(host: str) -> bool:
    if not (host.startswith("[") and host.endswith("]")):
        return False
    try:
        IPv6Address(host[1:-1])
    except AddressValueError:
        return False
    return True


#: Far above what is useful: a typing error must not use up the memory or wait for a year.
MAX_WORKERS = 1_000
MAX_WRITES = 1_000_000
MAX_WAIT = timedelta(hours=24)
MAX_PERIOD = timedelta(days=30)

Wait = Annotated[
    Duration,
    Field(ge=timedelta(0), le=MAX_WAIT, json_schema_extra={"pattern": NOT_NEGATIVE}),
]
Period = Annotated[
    Duration,
    Field(ge=timedelta(0), le=MAX_PERIOD, json_schema_extra={"pattern": NOT_NEGATIVE}),
]


#: For JSON schemas: the rule of the validator of `burst`.
_BURST_NEEDS_QPS: JsonDict = {
    "if": {"properties": {"burst": {"type": "integer"}}, "required": ["burst"]},
    "then": {"properties": {"qps": {"type": "number"}}, "required": ["qps"]},
}


class Section(BaseModel):
    """A section of the file: camelCase keys, no unknown keys, no conversion between types."""

    # `strict`: without it `enabled: 'yes please'` would be an error and `enabled: 'yes'` true,
    # which is hard to explain.
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True)


class ControllerSettings(Section):
    """Settings of one controller; `{}` means all defaults."""

    model_config = ConfigDict(json_schema_extra=_BURST_NEEDS_QPS)

    workers: int | None = Field(
        default=None,
        ge=1,
        le=MAX_WORKERS,
        description="Keys synced at the same time; left out: as many as the plugin says, or 5.",
    )
    qps: float | None = Field(
        default=None,
        gt=0,
        le=MAX_WRITES,
        allow_inf_nan=False,
        description="Writes a second; left out: no limit.",
    )
    burst: int | None = Field(
        default=None,
        ge=1,
        le=MAX_WRITES,
        description="Writes at once before 'qps' limits; left out: 1.5 times 'qps', at least 1.",
    )
    resync_period: Period = Field(
        default=timedelta(hours=10),
        description="How often all objects are synced in case a change was missed; 0s: never.",
    )
    settings: dict[str, Any] = Field(
        default={}, description="What the controller's own plugin lets you set."
    )

    @field_validator("burst")
    @classmethod
    def _burst_needs_qps(cls, burst: int | None, info: ValidationInfo) -> int | None:
        if burst is not None and info.data.get("qps", 0.0) is None:
            raise Invalid("'burst' does nothing without 'qps'", "set 'qps' too, or remove 'burst'")
        return burst

    @property
    def burst_size(self) -> int | None:
        """The burst: `burst`, else 1.5 times `qps` rounded up; None without a limit."""
        if self.qps is None or self.burst is not None:
            return self.burst
        # The share of the original's defaults: 30 for a `qps` of 20 (H-30).
        return max(1, math.ceil(self.qps * 1.5))


class LeaderElectionSettings(Section):
    """Settings of leader election between replicas."""

    enabled: bool = Field(
        default=False,
        description="Only false: leader election is not built yet.",
        json_schema_extra={"enum": [False]},
    )

    @field_validator("enabled")
    @classmethod
    def _not_built(cls, enabled: bool) -> bool:
        # Refused and not ignored: an operator who enables it would start a second replica (F-80).
        if enabled:
            raise Invalid(
                "leader election is not built yet",
                "run one replica and set 'leaderElection.enabled: false'",
            )
        return enabled


class HttpSettings(Section):
    """Settings of the HTTP endpoints for health, metrics and status."""

    bind: str = Field(
        default="127.0.0.1:10270",
        description="Host and port; port 0 takes any free one, IPv6 stands in brackets.",
        json_schema_extra={"pattern": BIND_PATTERN},
    )

    @field_validator("bind", mode="before")
    @classmethod
    def _is_address(cls, bind: Any) -> Any:
        return check_bind(bind)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port; an IPv6 host without its brackets."""
        return split_bind(self.bind)


class TracesSettings(Section):
    """Settings of the export of traces."""

    exporter: Literal["none", "otlp", "console"] = Field(
        default="none", description="'otlp' sends to 'endpoint', 'console' writes to stdout."
    )
    endpoint: str = Field(
        default="http://127.0.0.1:4318",
        description="Base URL of an OTLP receiver over HTTP; '/v1/traces' is added.",
        json_schema_extra={"pattern": ENDPOINT_PATTERN},
    )
    sample_ratio: float = Field(
        default=1.0, ge=0, le=1, description="Share of syncs that are traced, 0 to 1."
    )

    @field_validator("endpoint", mode="before")
    @classmethod
    def _is_url(cls, endpoint: Any) -> Any:
        return check_endpoint(endpoint)


class TelemetrySettings(Section):
    """Settings of the telemetry that is sent to other systems."""

    traces: TracesSettings = TracesSettings()


class LogSettings(Section):
    """Settings of the log on stderr."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least level that is written."
    )
    format: Literal["text", "json"] = Field(default="text", description="Lines for people or JSON.")


class HostSettings(BaseSettings):
    """
    All settings of the file, validated.

    Constructed by `load_settings`, or in tests from camelCase keywords; no variables are read.
    """

    model_config = SettingsConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, strict=True
    )

    kubeconfig: str | None = Field(
        default=None,
        description="Path; left out: $KUBECONFIG, then in-cluster, then ~/.kube/config.",
        json_schema_extra={"minLength": 1},
    )
    controllers: dict[str, ControllerSettings] = Field(
        min_length=1, description="What runs, by name; nothing else does."
    )
    extensions: list[str] = Field(
        default=[],
        description="Extensions that observe syncs, by name; none runs unless named here.",
    )
    service_account_credentials: bool = Field(
        default=False,
        description="Whether each controller writes as its own service account in kube-system.",
    )
    leader_election: LeaderElectionSettings = LeaderElectionSettings()
    http: HttpSettings = HttpSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    log: LogSettings = LogSettings()
    start_timeout: Wait = Field(
        default=timedelta(seconds=10), description="How long to wait for the server at start."
    )
    shutdown_timeout: Wait = Field(
        default=timedelta(seconds=10), description="How long running syncs may take at the end."
    )

    @field_validator("kubeconfig")
    @classmethod
    def _expand_home(cls, kubeconfig: str | None) -> str | None:
        if kubeconfig == "":
            raise Invalid("an empty path names no file", "write a path, or leave 'kubeconfig' out")
        if kubeconfig is None or not kubeconfig.startswith("~"):
            return kubeconfig
        try:
            return str(Path(kubeconfig).expanduser())
        except RuntimeError as error:
            raise Invalid("there is no home folder for '~'", "write the full path") from error

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return `MergedSource` alone: the layers are merged before, with their origins."""
        return (MergedSource(settings_cls, init_settings),)

    @classmethod
    def from_merged(cls, merged: dict[str, Any]) -> Self:
        """Return the settings in `merged`, keys as in the file; raises `ValidationError`."""
        return cls.model_validate({MERGED: merged})
