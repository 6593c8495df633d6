"""What the reference did, kept as files: one for each release and controller."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from parity.result import Result
from parity.scenario import Scenario

from kcm_host_testing import release

FOLDER = Path(__file__).parent / "recorded"


class Recordings:
    """The recorded results of one controller, for the release that the kit is built from."""

    def __init__(self, controller: str, *, folder: Path = FOLDER) -> None:
        self.path = folder / release.kubernetes_version() / f"{controller}.json"
        self._entries: dict[str, Any] = {}
        if self.path.exists():
            self._entries = json.loads(self.path.read_text())

    def of(self, scenario: Scenario) -> Result | None:
        """Return what the reference did; None when that is not known, or of an older scenario."""
        entry = self._entries.get(scenario.name)
        if entry is None or entry["digest"] != scenario.digest:
            return None
        packed = {key: value for key, value in entry.items() if key not in ("digest", "contents")}
        result = Result(**packed)
        contents = entry["contents"]
        result.looks = {title: _unpacked(look, contents) for title, look in packed["looks"].items()}
        return result

    def keep(self, results: Iterable[tuple[Scenario, Result]], known: Iterable[Scenario]) -> None:
        """Write results over what was there; scenarios that are not known any more are dropped."""
        for scenario, result in results:
            contents: list[Any] = []
            looks = {title: _packed(look, contents) for title, look in result.looks.items()}
            packed = {**asdict(result), "looks": looks, "contents": contents}
            self._entries[scenario.name] = {"digest": scenario.digest, **packed}
        names = {one.name for one in known}
        kept = {name: self._entries[name] for name in sorted(self._entries.keys() & names)}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = [f" {json.dumps(name)}: {json.dumps(entry)}" for name, entry in kept.items()]
        self.path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _packed(look: Mapping[str, Any], contents: list[Any]) -> dict[str, int]:
    """Return reference -> place of its content: many nodes are all the same."""
    for each in look.values():
        if each not in contents:
            contents.append(each)
    return {ref: contents.index(each) for ref, each in look.items()}


def _unpacked(look: Mapping[str, int], contents: list[Any]) -> dict[str, Any]:
    return {ref: contents[place] for ref, place in look.items()}
