"""Extensions: they observe every sync and cannot affect one."""

import logging
import sys
from textwrap import dedent

import pytest
from host.plugins.conftest import Site
from logged import pairs_of

from kcm_host.api import Key, SyncRecord
from kcm_host.plugins.extensions import Extensions, load_extensions
from kcm_host.plugins.finder import find
from kcm_host.plugins.hookimpls import EXTENSION
from kcm_host.plugins.quarantine import Stage

RECORD = SyncRecord(
    controller="ttl",
    key=Key("node-1"),
    outcome="done",
    attempt=1,
    queued_seconds=0.0,
    seconds=0.0,
    causes=(),
    merged=1,
    writes=(),
    reads=0,
)

OBSERVER = """
    from kcm_host.api import hookimpl

    class Observer:
        records = []

        @hookimpl
        def kcm_observe(self, record):
            self.records.append(record)
"""


def observing(site: Site, **sources: str) -> Extensions:
    """Install and load these extensions."""
    for name, source in sources.items():
        site.plugin(name, source, attribute="Observer", group=EXTENSION.group)
    return load_extensions(find(EXTENSION.group), sources, host_version="0.2.0")


def observed(extensions: Extensions, name: str) -> list[SyncRecord]:
    """Return the records that an extension was called with."""
    records: list[SyncRecord]
    records = sys.modules[extensions.loading.plugins[name].module].Observer.records
    return records


def test_every_extension_is_called(site: Site) -> None:
    """Each enabled extension gets each record."""
    extensions = observing(site, one=OBSERVER, two=OBSERVER)
    assert extensions.observe(RECORD) == 0
    assert observed(extensions, "one") == observed(extensions, "two") == [RECORD]


@pytest.mark.parametrize("error", ["ValueError(record.key.name)", "SystemExit(1)"])
def test_a_failing_extension_affects_nothing_else(
    site: Site, caplog: pytest.LogCaptureFixture, error: str
) -> None:
    """Errors are counted at each call and logged once for each place; the others are called."""
    failing = OBSERVER.replace("self.records.append(record)", f"raise {error}")
    extensions = observing(site, a=OBSERVER, b=failing, c=OBSERVER)
    with caplog.at_level(logging.WARNING, "kcm_host.plugins.extensions"):
        assert [extensions.observe(RECORD), extensions.observe(RECORD)] == [1, 1]
    assert len(observed(extensions, "a")) == len(observed(extensions, "c")) == 2
    (logged,) = caplog.records
    assert pairs_of(logged)["extension"] == "b"
    assert error.split("(", maxsplit=1)[0] in pairs_of(logged)["error"]


def test_a_second_error_is_logged(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """An error of another type is logged although the first one was."""
    failing = OBSERVER.replace(
        "self.records.append(record)",
        "self.records.append(record); {1: [], 2: {}}[len(self.records)]['x']",
    )
    extensions = observing(site, b=failing)
    with caplog.at_level(logging.WARNING, "kcm_host.plugins.extensions"):
        extensions.observe(RECORD)
        extensions.observe(RECORD)
    assert [pairs_of(one)["error"].split(":")[0] for one in caplog.records] == [
        "TypeError",
        "KeyError",
    ]


def test_a_keyboard_interrupt_passes(site: Site) -> None:
    """The user can interrupt an extension."""
    extensions = observing(
        site, one=OBSERVER.replace("self.records.append(record)", "raise KeyboardInterrupt")
    )
    with pytest.raises(KeyboardInterrupt):
        extensions.observe(RECORD)


@pytest.mark.parametrize(
    ("hook", "stage", "says"),
    [
        (
            "@hookimpl\n    def kcm_status(self, view): pass",
            Stage.VALIDATE,
            "'kcm_status' is a hook of controllers",
        ),
        (
            "@hookimpl(wrapper=True)\n    def kcm_sync(self, key): yield",
            Stage.REGISTER,
            "'kcm_sync' is a wrapper of 'kcm_sync'",
        ),
        (
            "@hookimpl(wrapper=True, specname='kcm_observe')\n    def around(self): yield",
            Stage.REGISTER,
            "'around' is a wrapper of 'kcm_observe'",
        ),
        ("def kcm_settings(self): pass", Stage.VALIDATE, "'kcm_settings' lacks @hookimpl"),
    ],
    ids=["hook of controllers", "wraps sync", "wraps observe", "unmarked"],
)
def test_a_broken_extension_is_quarantined(site: Site, hook: str, stage: Stage, says: str) -> None:
    """An extension is validated like a controller; the others are called."""
    bad = dedent(OBSERVER) + f"\n    {hook}\n"
    extensions = observing(site, bad=bad, good=OBSERVER)
    found = extensions.loading.quarantined["bad"]
    assert found.stage is stage
    assert says in found.reason
    assert found.remedy
    extensions.observe(RECORD)
    assert observed(extensions, "good") == [RECORD]
