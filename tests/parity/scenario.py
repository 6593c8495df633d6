"""A scenario: what is there before the controllers start, what happens then, and what counts."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from parity.nets import with_own_nets
from parity.resources import RESOURCES, Ref
from parity.steps import Ask, Look, Machine, Quiet, Refuse, Step, Together, Wait

#: In every text of a scenario this stands for what makes its names unlike those of others.
OWN = "$"
END = "at the end"
SERVER_AWAY = (Machine.RESTART_SERVER, Machine.EXPIRE)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cluster:
    """What a scenario needs of its API server and of the two sides; most need nothing."""

    server: Mapping[str, Any] = field(default_factory=dict)
    """Options of `ApiServer`."""
    reference_args: tuple[str, ...] = ()
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Controller -> its settings in the host."""
    proxied: bool = False
    """True if requests can be refused on the way (`Refuse`)."""


@dataclass(frozen=True, slots=True)
class Round:
    """Steps without a wait between them, and what ends them."""

    steps: tuple[Ask | Together | Refuse, ...]
    end: Quiet | Look | Wait | Machine


@dataclass(frozen=True, slots=True)
class Scenario:
    """
    One story, played to both sides.

    `$` in any text becomes a prefix of its own. A namespace is made when a reference names it.
    """

    name: str
    controller: str
    rules: str
    """Which rules it shows: for the reader of a failure."""
    steps: tuple[Step, ...] = ()
    before: tuple[Ask | Together | Refuse, ...] = ()
    cluster: Cluster = field(default_factory=Cluster)
    alone: bool = False
    """True if it needs an API server that nobody else uses: because it counts or selects all."""
    restless: bool = False
    """
    True if the reference writes for ever when chance is against it.

    Then it plays alone, once more if that happens, and is not in the sample.
    """
    counted: bool = True
    """True if the number of writes is the same each time; otherwise only which there are counts."""
    differs: tuple[str, ...] = ()
    """Names of the declared Differences that show here."""
    by_chance: tuple[str, ...] = ()
    """Names of the declared Differences that show here now and then."""
    also: tuple[str, ...] = ()
    """Further resources to collect, and references to objects that are not its own."""
    tolerant: bool = False
    """True if a request may be refused; by what is then compared as well."""

    @property
    def id(self) -> str:
        """Controller and name: what pytest and the recordings call it."""
        return f"{self.controller}/{self.name}"

    @property
    def digest(self) -> str:
        """What a recording remembers, so that it is not used for a scenario that has changed."""
        told = repr((self.before, self.steps, self.cluster, self.also, self.tolerant))
        return hashlib.sha256(told.encode()).hexdigest()[:12]

    @property
    def rounds(self) -> list[Round]:
        """The steps, split where the scenario waits or the machine is touched."""
        rounds: list[Round] = []
        steps: list[Ask | Together | Refuse] = []
        for step in self.steps:
            if isinstance(step, Quiet | Look | Wait | Machine):
                rounds.append(Round(tuple(steps), step))
                steps = []
            else:
                steps.append(step)
        return [*rounds, Round(tuple(steps), Look(END))]

    @property
    def machine(self) -> tuple[tuple[int, Machine], ...]:
        """After which rounds the machine is touched: only who agrees in it can play together."""
        ends = enumerate(one.end for one in self.rounds)
        return tuple((number, end) for number, end in ends if isinstance(end, Machine))

    @property
    def loses_server(self) -> bool:
        """Return whether the API server is away for a while."""
        return any(event in SERVER_AWAY for _, event in self.machine)

    @property
    def refs(self) -> list[Ref]:
        """All objects that its steps name."""
        return [Ref.parse(ask.ref) for ask in asks((*self.before, *self.steps))]

    @property
    def collected(self) -> set[str]:
        """The resources of which its objects are compared."""
        named = {ref.resource for ref in self.refs} | {text.split("/")[0] for text in self.also}
        return named & RESOURCES.keys() - {"namespaces"}

    def told(self) -> str:
        """Return it as text for people."""
        before = [f"  before the start: {step}" for step in self.before]
        steps = [f"  {number:2}. {step}" for number, step in enumerate(self.steps, 1)]
        return "\n".join([f"{self.id} ({self.rules})", *before, *steps])


def stories(controller: str, **common: Any) -> Callable[..., Scenario]:
    """Return a function that makes scenarios of a controller, from name, rules and steps."""

    def story(
        name: str, rules: str, *steps: Any, before: Iterable[Any] = (), **more: Any
    ) -> Scenario:
        return Scenario(name, controller, rules, steps, tuple(before), **{**common, **more})

    return story


def asks(steps: Iterable[Step]) -> Iterator[Ask]:
    """Return all requests in these steps."""
    for step in steps:
        if isinstance(step, Ask):
            yield step
        elif isinstance(step, Together):
            yield from step.asks


def owned(value: T, prefix: str) -> T:
    """Return a value with `$` replaced in all its texts and keys; see `nets` for addresses."""
    found: Any = value
    match found:
        case str():
            found = with_own_nets(found, prefix).replace(OWN, prefix)
        case dict():
            found = {owned(key, prefix): owned(each, prefix) for key, each in found.items()}
        case list():
            found = [owned(each, prefix) for each in found]
    return found  # type: ignore[no-any-return] # of the type that came in
