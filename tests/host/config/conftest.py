"""A config file on disk, loaded, or what is wrong with it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kcm_host.cli.installed import controller_names
from kcm_host.config.errors import ConfigError
from kcm_host.config.load import Loaded, load_settings

Load = Callable[..., Loaded]
Problems = Callable[..., list[str]]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a config file and returns its path."""

    def writing(text: str) -> Path:
        path = tmp_path / "config.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return writing


@pytest.fixture
def load(write: Callable[[str], Path]) -> Load:
    """Loads a text as the config file; keywords as for `load_settings`, by default no variables."""
    defaults = {"environ": {}, "names": controller_names()}

    def loading(text: str, **layers: Any) -> Loaded:
        return load_settings(file=write(text), **{**defaults, **layers})

    return loading


@pytest.fixture
def problems(load: Load, tmp_path: Path) -> Problems:
    """Loads an invalid configuration and returns the error text, without the folder."""

    def failing(text: str, **layers: Any) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            load(text, **layers)
        return [str(problem).replace(f"{tmp_path}/", "") for problem in caught.value.problems]

    return failing
