"""The optional parts of a file, and their defaults."""

from datetime import timedelta
from pathlib import Path

import pytest
from host.config.conftest import Load

from kcm_host.config.models import ControllerSettings

SAMPLE = """
kubeconfig: ~/.kube/config        # left out: $KUBECONFIG, then in-cluster, then ~/.kube/config
controllers:                      # what runs; nothing else does
  ttl: {}
  resourcequota:
    workers: 5
    settings: {resyncPeriod: 5m}
leaderElection: {enabled: false}
http: {bind: 127.0.0.1:10270}     # health, metrics, status page
telemetry: {traces: {exporter: otlp, endpoint: http://127.0.0.1:4318, sampleRatio: 0.1}}
"""


def test_sample_of_the_design_loads(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """The documented file loads with its values and without a warning (design 7)."""
    monkeypatch.setenv("HOME", "/home/ada")
    loaded = load(SAMPLE)
    settings = loaded.settings
    assert loaded.warnings == ()
    assert settings.kubeconfig == "/home/ada/.kube/config"
    assert settings.controllers["ttl"] == ControllerSettings()
    assert settings.controllers["resourcequota"].workers == 5
    assert settings.controllers["resourcequota"].settings == {"resyncPeriod": "5m"}
    assert settings.http.address == ("127.0.0.1", 10270)
    assert settings.telemetry.traces.exporter == "otlp"
    assert settings.telemetry.traces.sample_ratio == 0.1


def test_defaults_hold_where_nothing_is_said(load: Load) -> None:
    """One named controller is a whole configuration (design 5 and 7)."""
    settings = load("controllers: {ttl: }").settings
    assert settings.kubeconfig is None
    assert settings.leader_election.enabled is False
    assert settings.http.bind == "127.0.0.1:10270"
    assert settings.telemetry.traces.exporter == "none"
    assert settings.telemetry.traces.sample_ratio == 1.0
    assert (settings.log.level, settings.log.format) == ("info", "text")
    assert settings.start_timeout == settings.shutdown_timeout == timedelta(seconds=10)


def test_empty_sections_mean_defaults(load: Load) -> None:
    """A key without a value is as good as none (design 7)."""
    sparse = load(
        "controllers: {ttl: {workers: , settings: }}\nhttp:\nlog: {level: }\nstartTimeout:\n"
        "telemetry: {traces: }\nkubeconfig:\n"
    )
    assert sparse.settings == load("controllers: {ttl: {}}").settings


@pytest.mark.parametrize("section", ["", "leaderElection:", "leaderElection: {}"])
def test_leader_election_left_out_is_one_warning(load: Load, section: str) -> None:
    """Without `leaderElection` it is off, with one warning (design 7)."""
    [warning] = load(f"controllers: {{ttl: }}\n{section}").warnings
    assert "'leaderElection' is left out, so it is off: run one replica only" in warning


@pytest.mark.parametrize(
    ("bind", "address"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("'[::]:80'", ("::", 80)),
        ("'[::1]:65535'", ("::1", 65535)),
        ("localhost:8080", ("localhost", 8080)),
    ],
)
def test_bind_takes_host_and_port(load: Load, bind: str, address: tuple[str, int]) -> None:
    """Port 0 is valid, and IPv6 has brackets (design 7)."""
    assert load(f"controllers: {{ttl: }}\nhttp: {{bind: {bind}}}").settings.http.address == address


@pytest.mark.parametrize(
    ("qps", "burst", "size"),
    [(None, None, None), (10.0, None, 15), (0.1, None, 1), (0.7, None, 2), (5.0, 1, 1)],
)
def test_burst_follows_qps(qps: float | None, burst: int | None, size: int | None) -> None:
    """Left out, burst is 1.5 times qps rounded up, at least 1 (design 7)."""
    assert ControllerSettings(qps=qps, burst=burst).burst_size == size


def test_anchors_and_merge_keys_work(load: Load, tmp_path: Path) -> None:
    """YAML aliases repeat a value; keys beside `<<` take precedence over it (design 7)."""
    loaded = load(
        "controllers:\n"
        "  a: &many {workers: 9, qps: 4}\n"
        "  b: *many\n"
        "  c: {<<: *many, workers: 1}\n"
        "  d: {<<: [{burst: 1}, *many, {burst: 2}]}\n"
    )
    found = {name: (c.workers, c.qps, c.burst) for name, c in loaded.settings.controllers.items()}
    assert found == {"a": (9, 4, None), "b": (9, 4, None), "c": (1, 4, None), "d": (9, 4, 1)}
    assert str(loaded.origins["controllers.c.qps"]) == f"{tmp_path}/config.yaml:2"
    assert str(loaded.origins["controllers.c.workers"]) == f"{tmp_path}/config.yaml:4"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("off", "off"),
        ("true", True),
        ("010", 10),
        ("0x1F", 31),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("-1.5", -1.5),
        (".inf", float("inf")),
        ("~", None),
        ("'5'", "5"),
        ("!!str 5", "5"),
        ("=", "="),
        ("9" * 5000, "9" * 5000),
    ],
    ids=lambda value: str(value)[:12],
)
def test_scalars_follow_yaml_1_2(load: Load, text: str, value: object) -> None:
    """Only `true` and `false` are truths; dates and base 60 are texts (design 7)."""
    loaded = load(f"controllers: {{a: {{settings: {{x: {text}}}}}}}")
    assert loaded.settings.controllers["a"].settings == {"x": value}


def test_keys_are_texts(load: Load) -> None:
    """A key is a string, also where YAML has a number or a boolean (design 7)."""
    loaded = load("controllers: {a: {settings: {on: 1, 1: 2, null: 3}}}")
    assert loaded.settings.controllers["a"].settings == {"on": 1, "1": 2, "null": 3}


def test_settings_cannot_be_changed(load: Load) -> None:
    """Loaded settings are frozen all the way down to a controller's own (design 7)."""
    settings = load("controllers: {ttl: }").settings
    parts = [(settings, "log"), (settings.log, "level"), (settings.controllers["ttl"], "workers")]
    for part, field in parts:
        with pytest.raises(ValueError, match="frozen"):
            setattr(part, field, None)


def test_the_slow_sweep_is_every_ten_hours_or_as_said(load: Load) -> None:
    """`resyncPeriod` of a controller is the host's; `0s` switches the sweep off (F-52)."""
    loaded = load("controllers: {a: {}, b: {resyncPeriod: 90m}, c: {resyncPeriod: 0s}}")
    found = {name: one.resync_period for name, one in loaded.settings.controllers.items()}
    assert found == {"a": timedelta(hours=10), "b": timedelta(minutes=90), "c": timedelta(0)}
