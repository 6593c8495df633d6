"""Broken plugins: the output and the exit code of each command."""

import json

import pytest
from host.cli.conftest import Command, WriteFile
from plugin_site import EXTENSIONS, PluginSite, controller

STRANGE_SETTINGS = """
    from pydantic import BaseModel, field_validator

    class Settings(BaseModel):
        size: int = 1

        @field_validator("size")
        @classmethod
        def _check(cls, size):
            raise RuntimeError("the validator is broken")

    Loop.kcm_settings = staticmethod(hookimpl(lambda: Settings))
    Loop.__init__ = lambda self, settings: None
"""


@pytest.fixture
def broken(site: PluginSite) -> None:
    """Install a plugin that cannot be imported."""
    site.plugin("broken", "import json\n\njson.loads('{')\n")


@pytest.mark.usefixtures("broken")
def test_check_fails_when_a_plugin_is_broken(
    command: Command, config: WriteFile, kubeconfig: WriteFile
) -> None:
    """Exit code 1, and the table has the name, the reason and the remedy."""
    ended = command("check", "-c", config(ttl={}, broken={}), "--kubeconfig", kubeconfig())
    assert ended.code == 1
    assert not ended.err
    (line,) = [line for line in ended.out.splitlines() if line.startswith("broken")]
    assert "quarantined" in line
    assert "JSONDecodeError" in line
    assert "report it to the authors of 'acme-broken'" in line


@pytest.mark.usefixtures("broken")
def test_a_host_without_a_sound_plugin_ends(
    command: Command, config: WriteFile, kubeconfig: WriteFile
) -> None:
    """Every enabled plugin is broken: exit code 1, the reason is in the log (design 4)."""
    ended = command("run", "-c", config(broken={}), "--kubeconfig", kubeconfig())
    assert ended.code == 1
    first, last = ended.err.splitlines()
    assert "plugin quarantined  plugin=broken" in first
    assert "stage=import" in first
    assert last == "error: no controller can run, every one is broken; see above"


@pytest.mark.parametrize("verb", ["check", "run"])
def test_a_validator_that_crashes_is_the_plugins_fault(
    command: Command, site: PluginSite, config: WriteFile, kubeconfig: WriteFile, verb: str
) -> None:
    """An exception that pydantic does not expect quarantines the plugin; no traceback is shown."""
    site.plugin("strange", controller(settings=STRANGE_SETTINGS))
    file = config(strange={"settings": {"size": 3}})
    ended = command(verb, "-c", file, "--kubeconfig", kubeconfig())
    assert ended.code == 1
    assert "RuntimeError: the validator is broken" in ended.out + ended.err
    assert "Traceback" not in ended.err


@pytest.mark.usefixtures("broken")
def test_lists_name_the_state(command: Command, site: PluginSite) -> None:
    """`plugins list` shows who would run, and ends with 0: it has answered."""
    site.plugin("sound", controller())
    ended = command("plugins", "list")
    assert ended.code == 0
    states = {line.split()[0]: line.split()[2] for line in ended.out.splitlines()[1:]}
    assert states["broken"] == "quarantined"
    assert states["sound"] == states["ttl"] == "ok"


@pytest.mark.usefixtures("broken")
def test_info_tells_why_a_plugin_is_broken(command: Command) -> None:
    """Stage, reason and remedy are separate in JSON."""
    record = json.loads(command("plugins", "info", "broken", "-o", "json").out)
    assert record["state"] == "quarantined"
    assert record["distribution"] == "acme-broken"
    assert record["problem"]["stage"] == "import"
    assert "JSONDecodeError" in record["problem"]["reason"]
    assert record["problem"]["remedy"]


@pytest.mark.usefixtures("broken")
def test_the_schema_leaves_out_what_is_broken(command: Command) -> None:
    """The schema is valid JSON; the warning is on stderr."""
    ended = command("config", "schema")
    assert ended.code == 0
    assert "broken" not in json.loads(ended.out)["properties"]["controllers"]["properties"]
    assert ended.err.startswith("warning: plugin 'broken' is broken")


def test_check_lists_extensions_apart(
    command: Command, site: PluginSite, config: WriteFile, kubeconfig: WriteFile
) -> None:
    """JSON has controllers and extensions, each with its state."""
    site.plugin(
        "watcher",
        """
        from kcm_host.api import hookimpl

        class Loop:
            @hookimpl
            def kcm_observe(self, record): ...
        """,
        group=EXTENSIONS,
    )
    file = config(more={"extensions": ["watcher"]})
    ended = command("check", "-c", file, "--kubeconfig", kubeconfig(), "-o", "json")
    found = json.loads(ended.out)
    assert ended.code == 0
    assert [one["name"] for one in found["controllers"]] == ["ttl"]
    assert [(one["name"], one["state"]) for one in found["extensions"]] == [("watcher", "ok")]
