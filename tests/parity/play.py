"""Plays scenarios together on one API server with one side's controllers, round by round."""

import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from parity.api import Refused
from parity.harvest import Harvest, writes
from parity.lateness import Lateness
from parity.resources import Ref
from parity.result import Result
from parity.scenario import Round, Scenario, owned
from parity.side import Side
from parity.stage import Stage
from parity.steps import Ask, Look, Machine, Refuse, Together, Wait, create

from kcm_host_testing.etcd import Etcd
from kcm_host_testing.proxy import Rule

TOGETHER = 8
WRITE_VERBS = frozenset({"create", "update", "patch", "delete", "deletecollection"})


def play(etcd: Etcd, side: Side, scenarios: Sequence[Scenario]) -> list[Result]:
    """
    Return the results of scenarios that may share an API server, in their order.

    Nothing is raised: a scenario that could not be played says so in its result.
    """
    controllers = tuple(sorted({one.controller for one in scenarios}))
    players = [Player(one, f"s{number:03}z-") for number, one in enumerate(scenarios)]
    try:
        with Stage(etcd, side, controllers, scenarios[0].cluster) as stage:
            _Play(stage, players).run()
    except Exception:  # noqa: BLE001 - whatever it was, it is told with each scenario it spoilt
        for player in players:
            player.fail(f"the {side.name} could not play:\n{traceback.format_exc()}")
    return [player.result for player in players]


class Player:
    """One scenario on a stage, with the prefix of its names."""

    def __init__(self, scenario: Scenario, prefix: str) -> None:
        self.scenario = scenario
        self.prefix = prefix
        self.result = Result()
        self._asked = 0
        self._lateness = Lateness(scenario)
        self._rules: dict[str, Rule] = {}

    def fail(self, problem: str) -> None:
        """Remember the first thing that went wrong."""
        self.result.problem = self.result.problem or problem

    def round(self, number: int) -> Round | None:
        """Return its round of this number; None when it has come to its end."""
        rounds = self.scenario.rounds
        return rounds[number] if number < len(rounds) else None

    def namespaces(self) -> set[str]:
        """Return the namespaces that its steps name, with its prefix."""
        named = {ref.namespace for ref in self.scenario.refs if ref.namespace}
        return {owned(name, self.prefix) for name in named if name.startswith("$")}

    def do(self, stage: Stage, steps: Iterable[Ask | Together | Refuse]) -> None:
        """Take steps one after the other; those after a failed one are left out."""
        if self.result.problem:
            return
        try:
            for step in steps:
                self._step(stage, step)
        except Exception as error:  # noqa: BLE001 - told as the scenario's own failure
            self.fail(f"'{step}' failed: {error}")

    def _step(self, stage: Stage, step: Ask | Together | Refuse) -> None:
        self._lateness.asks(step)
        match step:
            case Ask():
                self._note(step, stage.api.ask(step, self.prefix))
            case Together():
                for ask, status in zip(
                    step.asks, stage.api.ask_all(step.asks, self.prefix), strict=True
                ):
                    self._note(ask, status)
            case Refuse():
                ref = Ref.parse(owned(step.ref, self.prefix))
                path = ref.collection if step.method == "POST" else ref.path
                path += f"/{step.subresource}" if step.subresource else ""
                self._rules[str(step)] = stage.refuse(step, path)

    def _note(self, ask: Ask, status: int) -> None:
        self._asked += 1
        if status < 400:
            return
        if not self.scenario.tolerant:
            raise Refused(f"'{ask}' was answered with {status}")
        self.result.answers[f"{self._asked}. {ask.verb} {ask.ref}"] = status

    def look(self, harvest: Harvest, look: Look) -> None:
        """Keep the objects as they are now."""
        found = harvest.objects(self.scenario, self.prefix)
        wanted = {ref: each for ref, each in found.items() if ref.startswith(look.only)}
        self.result.looks[look.title] = wanted
        self.result.late = self.result.late or self._lateness.of(look)

    def waits(self, wait: Wait) -> None:
        """Note that a time begins in which no look is taken."""
        self._lateness.waits(wait)

    def end(self, harvest: Harvest) -> None:
        """Keep what Events say, and how often requests were refused."""
        self.result.events = harvest.events(self.scenario, self.prefix)
        self.result.refused = {told: rule.hits for told, rule in self._rules.items()}


class _Play:
    def __init__(self, stage: Stage, players: Sequence[Player]) -> None:
        self._stage = stage
        self._players = players

    def run(self) -> None:
        stage = self._stage
        namespaces = {name for player in self._players for name in player.namespaces()}
        stage.api.ask_all(tuple(create(f"namespaces/{name}") for name in sorted(namespaces)), "")
        self._all(lambda player: player.do(stage, player.scenario.before))
        mark = stage.server.audit.mark()
        stage.start()
        for number in range(max(len(player.scenario.rounds) for player in self._players)):
            self._round(number)
        entries = [one for one in stage.server.audit.entries(since=mark) if one.verb in WRITE_VERBS]
        harvest = Harvest(stage.api)
        for player in self._players:
            player.end(harvest)
            player.result.writes = writes(entries, player.scenario, player.prefix)

    def _round(self, number: int) -> None:
        rounds = [(player, player.round(number)) for player in self._players]
        current = [(player, one) for player, one in rounds if one is not None]
        self._all(lambda player: player.do(self._stage, _steps(player.round(number))))
        events = {one.end for _, one in current if isinstance(one.end, Machine)}
        if events:
            (event,) = events
            self._stage.touch(event)
            return
        waits = [one.end.seconds for _, one in current if isinstance(one.end, Wait)]
        time.sleep(max(waits, default=0))
        self._stage.wait_until_quiet()
        harvest = Harvest(self._stage.api)
        for player, one in current:
            if isinstance(one.end, Look):
                player.look(harvest, one.end)
            elif isinstance(one.end, Wait):
                player.waits(one.end)

    def _all(self, action: Callable[[Player], None]) -> None:
        with ThreadPoolExecutor(TOGETHER) as pool:
            list(pool.map(action, self._players))


def _steps(one: Round | None) -> Iterable[Ask | Together | Refuse]:
    return one.steps if one else ()
