"""Extensions: told of every sync, unable to disturb one."""

import logging
import sys
from textwrap import dedent

import pytest

from kcm_host.api import Key, SyncRecord
from kcm_host.plugins.extensions import Extensions, load_extensions
from kcm_host.plugins.finder import find
from kcm_host.plugins.groups import EXTENSION
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

HEARS = """
    from kcm_host.api import hookimpl

    class Ears:
        heard = []

        @hookimpl
        def kcm_observe(self, record):
            self.heard.append(record)
"""


def observing(site, **sources: str) -> Extensions:
    """Install and load these extensions."""
    for name, source in sources.items():
        site.plugin(name, source, attribute="Ears", group=EXTENSION.group)
    return load_extensions(find(EXTENSION.group), sources, host_version="0.1.0")


def heard(extensions: Extensions, name: str) -> list[SyncRecord]:
    """Give the records an extension was told of."""
    return sys.modules[extensions.loading.plugins[name].module].Ears.heard


def test_every_extension_is_told(site):
    """Each enabled extension gets each record."""
    extensions = observing(site, one=HEARS, two=HEARS)
    assert extensions.observe(RECORD) == 0
    assert heard(extensions, "one") == heard(extensions, "two") == [RECORD]


@pytest.mark.parametrize("error", ["ValueError(record.key.name)", "SystemExit(1)"])
def test_an_extension_that_fails_disturbs_nobody(site, caplog, error):
    """Errors are counted at each call and logged once per fact; the others are still told."""
    failing = HEARS.replace("self.heard.append(record)", f"raise {error}")
    extensions = observing(site, a=HEARS, b=failing, c=HEARS)
    with caplog.at_level(logging.WARNING, "kcm_host.plugins.extensions"):
        assert [extensions.observe(RECORD), extensions.observe(RECORD)] == [1, 1]
    assert len(heard(extensions, "a")) == len(heard(extensions, "c")) == 2
    (logged,) = caplog.records
    assert logged.kv["extension"] == "b"
    assert error.split("(")[0] in logged.kv["error"]


def test_two_facts_are_logged_apart(site, caplog):
    """A second kind of failure is logged although the first one was."""
    failing = HEARS.replace(
        "self.heard.append(record)",
        "self.heard.append(record); {1: [], 2: {}}[len(self.heard)]['x']",
    )
    extensions = observing(site, b=failing)
    with caplog.at_level(logging.WARNING, "kcm_host.plugins.extensions"):
        extensions.observe(RECORD)
        extensions.observe(RECORD)
    assert [one.kv["error"].split(":")[0] for one in caplog.records] == ["TypeError", "KeyError"]


def test_the_user_can_interrupt_an_extension(site):
    """KeyboardInterrupt passes."""
    extensions = observing(
        site, one=HEARS.replace("self.heard.append(record)", "raise KeyboardInterrupt")
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
        ("def kcm_settings(self): pass", Stage.VALIDATE, "'kcm_settings' is there but lacks"),
    ],
    ids=["hook of controllers", "wraps sync", "wraps observe", "unmarked"],
)
def test_a_broken_extension_is_quarantined(site, hook, stage, says):
    """An extension is held to the same rules; its neighbour is told all the same."""
    bad = dedent(HEARS) + f"\n    {hook}\n"
    extensions = observing(site, bad=bad, good=HEARS)
    found = extensions.loading.quarantined["bad"]
    assert found.stage is stage
    assert says in found.reason
    assert found.remedy
    extensions.observe(RECORD)
    assert heard(extensions, "good") == [RECORD]


def test_an_extension_without_hooks_is_quarantined(site):
    """A class that would never be called says what it lacks."""
    extensions = observing(site, bad="class Ears: pass")
    assert extensions.loading.quarantined["bad"].reason == "it lacks 'kcm_observe'"
