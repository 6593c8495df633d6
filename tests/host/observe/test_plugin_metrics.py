"""Metrics of controllers in a scrape: the valid ones are shown, the others are omitted."""

import logging
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from logged import pairs_of
from prometheus_client.parser import text_string_to_metric_families

from kcm_host.api.errors import UndeclaredRead
from kcm_host.api.hooks import Metric
from kcm_host.observe.metrics import Metrics
from kcm_host.observe.prometheus import render
from kcm_host.observe.states import HostState

CLAIMS = Metric(
    name="acme_claims",
    help="Claims by state.",
    type="gauge",
    series=(({"state": "bound", "shop": "a"}, 3), ({"shop": "a", "state": "free"}, 4.5)),
)
MADE = Metric(name="acme_made_total", help="Things made.", type="counter", series=(({}, 7),))
FAILURES = "kcm_host_plugin_metrics_errors_total"


@pytest.fixture
def metrics() -> Metrics:
    """The metrics of a host that has done nothing."""
    return Metrics()


def offering(answer: Any) -> Callable[[], Any]:
    """Return a `kcm_metrics` with this answer."""
    return lambda: answer


def scrape(metrics: Metrics, state: HostState, **told: Sequence[Any]) -> dict[str, Any]:
    """Return the families of a scrape, by name, with these controllers' metrics in it."""
    offers = {name: offering(answer) for name, answer in told.items()}
    text = render(metrics, state, metrics.plugins.collect(offers)).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def problems(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the reasons that were logged."""
    return [pairs_of(record)["problem"] for record in caplog.records]


def test_metrics_of_a_controller_are_in_a_scrape(metrics: Metrics, state: HostState) -> None:
    """Names, help, types, labels and values are those that the controller gave."""
    families = scrape(metrics, state, acme=[CLAIMS, MADE])
    claims = families["acme_claims"]
    assert (claims.documentation, claims.type) == ("Claims by state.", "gauge")
    assert {(one.labels["shop"], one.labels["state"], one.value) for one in claims.samples} == {
        ("a", "bound", 3.0),
        ("a", "free", 4.5),
    }
    made = families["acme_made"]
    assert made.type == "counter"
    assert [(one.name, one.labels, one.value) for one in made.samples] == [
        ("acme_made_total", {}, 7.0)
    ]
    assert "kcm_host_ready" in families


def test_a_metric_without_series_is_named(metrics: Metrics, state: HostState) -> None:
    """What has nothing to count yet is known by type and help."""
    families = scrape(
        metrics, state, acme=[Metric(name="acme_none", help="None.", type="gauge", series=())]
    )
    assert families["acme_none"].samples == []


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (("acme claims", "h", "gauge", ()), "this is no name; use letters"),
        (("1st", "h", "gauge", ()), "this is no name; use letters"),
        ((None, "h", "gauge", ()), "this is no name; use letters"),
        (("acme_x", None, "gauge", ()), "its help is None; give a sentence"),
        (("acme_x", "h", "histogram", ()), "its type is 'histogram'; give 'counter' or"),
        (("acme_x", "h", "counter", ()), "it is a counter; let its name end with '_total'"),
        (("acme_x", "h", "gauge", 5), "its series are a int; give a tuple"),
        (("acme_x", "h", "gauge", ("ab",)), "a series is 'ab'; give a pair"),
        (("acme_x", "h", "gauge", (({}, "5"),)), "a series is ({}, '5'); give a pair"),
        (("acme_x", "h", "gauge", (({}, 10**400),)), "a value is 1000"),
        (("acme_x", "h", "gauge", (({"a": 1}, 5),)), "label 'a' is 1; give a string"),
        (("acme_x", "h", "gauge", (({"a-b": "c"}, 5),)), "'a-b' is no name of a label"),
        (("acme_x", "h", "gauge", (({"__a": "c"}, 5),)), "'__a' is no name of a label"),
        (
            ("acme_x", "h", "gauge", (({"a": "b"}, 5), ({}, 5))),
            "its series have different labels, a and none; give all the same",
        ),
        (
            ("acme_x", "h", "gauge", (({"a": "b"}, 5), ({"a": "b"}, 6))),
            "two of its series have the labels {'a': 'b'}; add them up",
        ),
    ],
)
def test_an_invalid_metric_is_omitted(
    metrics: Metrics,
    state: HostState,
    caplog: pytest.LogCaptureFixture,
    wrong: tuple[Any, ...],
    problem: str,
) -> None:
    """The others are shown, and one log line over all scrapes says what is wrong and what to do."""
    name, description, type_name, series = wrong
    made = Metric(name=name, help=description, type=type_name, series=series)
    for _ in range(3):
        families = scrape(metrics, state, acme=[made, MADE])
        assert "acme_made" in families
        assert "acme_x" not in families
    (line,) = caplog.records
    pairs = pairs_of(line)
    assert line.getMessage() == "metric omitted"
    assert (pairs["controller"], pairs["metric"]) == ("acme", str(wrong[0]))
    assert pairs["problem"].startswith(problem)


@pytest.mark.parametrize(
    ("name", "sort"),
    [
        ("kcm_host_ready", "gauge"),
        ("kcm_host_syncs", "gauge"),
        ("kcm_host_syncs_total", "counter"),
        ("workqueue_work_duration_seconds", "gauge"),
        ("workqueue_work_duration_seconds_count", "gauge"),
        ("process_cpu_seconds_total", "counter"),
    ],
)
def test_a_name_of_the_host_is_reserved(
    metrics: Metrics, state: HostState, caplog: pytest.LogCaptureFixture, name: str, sort: Any
) -> None:
    """The host's metric stays as it is, that of the controller is omitted."""
    before = render(metrics, state).decode()
    samples = metrics.plugins.collect(
        {"acme": lambda: [Metric(name=name, help="Mine.", type=sort, series=(({}, 1.5),))]}
    )
    after = render(metrics, state, samples).decode()
    assert after.count(f"# TYPE {name} ") == before.count(f"# TYPE {name} ")
    assert "Mine." not in after
    assert problems(caplog) == ["the host has a metric of that name"]


def test_a_name_belongs_to_one_controller(
    metrics: Metrics, state: HostState, caplog: pytest.LogCaptureFixture
) -> None:
    """Of two with one name the first by name has it; one's own twice counts once."""
    again = Metric(name="acme_made_total", help="Again.", type="counter", series=(({}, 9),))
    families = scrape(metrics, state, beta=[again], acme=[MADE, again])
    assert [one.value for one in families["acme_made"].samples] == [7.0]
    assert problems(caplog) == ["controller 'acme' has a metric of that name"] * 2
    assert [pairs_of(one)["controller"] for one in caplog.records] == ["acme", "beta"]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("x"), "KeyError: 'x'"),
        (SystemExit(3), "SystemExit: 3"),
        (UndeclaredRead("acme asked for 'pods'"), "acme asked for 'pods'"),
    ],
    ids=["exception", "exit", "error of ours"],
)
def test_a_metrics_hook_that_raises(
    metrics: Metrics,
    state: HostState,
    caplog: pytest.LogCaptureFixture,
    error: BaseException,
    text: str,
) -> None:
    """It is counted each time and logged once; the others' metrics are shown."""

    def broken() -> Sequence[Metric]:
        raise error

    for _ in range(3):
        samples = metrics.plugins.collect({"ttl": broken, "acme": lambda: [MADE]})
    shown = render(metrics, state, samples).decode()
    assert f'{FAILURES}{{controller="ttl"}} 3.0' in shown
    assert "acme_made_total 7.0" in shown
    (line,) = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert pairs_of(line) == {"controller": "ttl", "error": text}


def test_samples_are_copies(metrics: Metrics, state: HostState) -> None:
    """A scrape shows one moment, even if the controller goes on with the same dict."""
    labels = {"shop": "a"}
    metric = Metric(name="acme_claims", help="Claims.", type="gauge", series=((labels, 3),))
    samples = metrics.plugins.collect({"acme": lambda: [metric]})
    labels["shop"] = "b"
    assert 'acme_claims{shop="a"} 3.0' in render(metrics, state, samples).decode()


def test_problems_with_different_texts_are_logged_once(
    metrics: Metrics, state: HostState, caplog: pytest.LogCaptureFixture
) -> None:
    """A text with a new value at every scrape fills neither memory nor log (F-46)."""

    def failing(number: int) -> Callable[[], Sequence[Metric]]:
        def ask() -> Sequence[Metric]:
            raise ValueError(f"no claim {number}")

        return ask

    for number in range(3000):
        wrong = Metric(name="acme_x", help="h", type="gauge", series=((({"a": "b"}), f"{number}"),))  # type: ignore[arg-type]
        samples = metrics.plugins.collect({"acme": offering([wrong]), "ttl": failing(number)})
        assert list(metrics.plugins.valid(samples, reserved=())) == []
    assert [record.getMessage() for record in caplog.records] == [
        "kcm_metrics failed",
        "metric omitted",
    ]


def test_the_number_of_logged_names_is_limited(
    metrics: Metrics, state: HostState, caplog: pytest.LogCaptureFixture
) -> None:
    """A controller that makes up bad names for ever costs no memory (F-46)."""
    logging.disable(logging.WARNING)
    try:
        tracemalloc.start()
        before = 0
        for number in range(40_000):
            wrong = Metric(name=f"acme {number}", help="h", type="gauge", series=())
            samples = metrics.plugins.collect({"acme": offering([wrong])})
            assert list(metrics.plugins.valid(samples, reserved=())) == []
            if number == 10_000:
                before = tracemalloc.get_traced_memory()[0]
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
        logging.disable(logging.NOTSET)
    assert grown < 100_000


def test_a_huge_wrong_value_is_shortened(
    metrics: Metrics, state: HostState, caplog: pytest.LogCaptureFixture
) -> None:
    """The log line shows the beginning of what is wrong (F-46)."""
    scrape(
        metrics,
        state,
        acme=[Metric(name="acme_x", help="h", type="gauge", series=(("x" * 100_000,),))],  # type: ignore[arg-type] # no series
    )
    (problem,) = problems(caplog)
    assert len(problem) < 200


@pytest.mark.parametrize("where", ["help", "label"])
def test_text_that_is_no_unicode_breaks_no_scrape(
    metrics: Metrics, state: HostState, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    """A lone surrogate cannot be sent: that metric is left out and the others are shown (F-23)."""
    odd = "\udc80"
    text, labels = (odd, {}) if where == "help" else ("Help.", {"a": odd})
    families = scrape(
        metrics,
        state,
        acme=[Metric(name="acme_x", help=text, type="gauge", series=((labels, 1),)), MADE],
    )
    assert "acme_made" in families
    assert "acme_x" not in families
    assert "cannot be written as UTF-8" in problems(caplog)[0]
