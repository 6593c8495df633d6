"""Every key of the config file is in the reference with its default, and the samples load."""

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml
from pages import Block, blocks, read, table

from kcm_host.config.layers import leaves
from kcm_host.config.load import load_settings
from kcm_host.config.models import HostSettings

PAGE = read("docs/configuration.md")
ROWS = {
    cells[0].strip("`"): cells[1].strip("`") for cells in table(PAGE) if cells[0].startswith("`")
}
#: What the page says where the model has no default of its own.
WITHOUT_DEFAULT = {
    "kubeconfig": "",
    "controllers": "required",
    "controllers.<name>.workers": "the plugin's, or 5",
    "controllers.<name>.qps": "no limit",
    "controllers.<name>.burst": "1.5 times `qps`",
}
CONFIGS = [one for one in blocks("yaml", "json") if "apiVersion" not in one.text]


def keys() -> dict[str, object]:
    """Return every key of the models with its default as the file would have it."""
    whole = HostSettings.from_merged({"controllers": {"x": {}}})
    found = {
        ".".join(map(str, path)).replace("controllers.x", "controllers.<name>"): value
        for path, value in leaves(whole.model_dump(mode="json", by_alias=True))
    }
    return {"controllers": None, **found}


def test_every_key_is_documented() -> None:
    """No key is missing on the page, and the page has no key that does not exist."""
    assert ROWS.keys() == keys().keys()


@pytest.mark.parametrize(("key", "default"), keys().items(), ids=keys())
def test_defaults_are_those_of_the_code(key: str, default: str) -> None:
    """What is left out has the value that the page says."""
    expected = WITHOUT_DEFAULT.get(key)
    if expected is None:
        expected = default if isinstance(default, str) else json.dumps(default)
    assert ROWS[key] == expected.strip("`")


@pytest.mark.parametrize("block", CONFIGS, ids=str)
def test_sample_configs_load(block: Block, tmp_path: Path) -> None:
    """What a reader copies is a valid config file; parts of one are valid parts."""
    found = yaml.safe_load(block.text)
    path = tmp_path / "kcm-host.yaml"
    path.write_text(
        block.text if "controllers" in found else f"controllers: {{ttl: {{}}}}\n{block.text}"
    )
    loaded = load_settings(file=path, environ={})
    assert loaded.settings.controllers


def test_there_are_sample_configs() -> None:
    """README, host README and the pages about running have one each."""
    names = {str(one.page.relative_to(one.page.parents[1])) for one in CONFIGS}
    assert any(name.endswith("README.md") for name in names)
    assert "docs/operations.md" in names


def test_sample_variables_are_settings() -> None:
    """Each variable on the page sets something, and none is warned of."""
    lines = [
        line.partition("=")
        for block in blocks("sh")
        for line in block.text.splitlines()
        if line.startswith("KCM_HOST_")
    ]
    assert len(lines) >= 3
    environ = {name: shlex.split(value)[0] for name, _, value in lines}
    loaded = load_settings(
        file=None,
        environ=environ,
        overrides=["controllers.ttl={}", "controllers.clusterrole-aggregation={}"],
    )
    assert not [warning for warning in loaded.warnings if "variable" in warning]
    origins = {origin.name for origin in loaded.origins.values() if origin.kind == "variable"}
    assert origins == environ.keys()


def test_words_for_durations_load() -> None:
    """The forms that the page shows for durations are read."""
    (line,) = [line for line in PAGE.splitlines() if line.startswith("Durations are written")]
    for text in re.findall(r"`([^`]+)`", line):
        load_settings(
            file=None, environ={}, overrides=["controllers.ttl={}", f"startTimeout={text}"]
        )
