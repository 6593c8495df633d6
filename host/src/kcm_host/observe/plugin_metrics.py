"""The metrics that controllers have of their own, without those that would spoil a scrape."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from kcm_host.api.errors import PLUGIN_FAILURES, HostError
from kcm_host.api.metrics import Metric
from kcm_host.observe.sound_metrics import copy_of, problem_of

log = logging.getLogger(__name__)

Ask = Callable[[], Sequence[Metric]]
#: By controller, what to call for its metrics now; that may raise.
Offers = Mapping[str, Ask]
#: By controller, its metrics at one moment.
Told = Mapping[str, Sequence[Metric]]


class PluginMetrics:
    """
    Asks controllers for their metrics.

    Prometheus refuses a whole scrape for one bad line, so a bad metric is left out and the others
    are shown. Each mistake is logged once.
    """

    def __init__(self) -> None:
        #: By controller, exceptions out of its `kcm_metrics`.
        self.errors: dict[str, int] = {}
        self._logged: set[tuple[str, ...]] = set()

    def asked(self, offers: Offers) -> Told:
        """
        Give what each controller tells, without the metrics that are wrong in themselves.

        Belongs to the event loop. What comes out is a copy, which any thread may read.
        """
        return {name: tuple(self._sound(name, ask)) for name, ask in offers.items()}

    def shown(self, told: Told, *, taken: Iterable[str]) -> Iterator[Metric]:
        """
        Give the metrics whose names nobody else has; `taken` are the names of the host's.

        Of controllers that use one name, the one that comes first by its own name has it.
        """
        owners = dict.fromkeys(taken, "the host")
        for controller, metrics in sorted(told.items()):
            for metric in metrics:
                owner = owners.get(metric.name)
                if owner is None:
                    owners[metric.name] = f"controller '{controller}'"
                    yield metric
                else:
                    self._leave_out(controller, metric.name, f"{owner} has a metric of that name")

    def _sound(self, controller: str, ask: Ask) -> Iterator[Metric]:
        for metric in self._answer(controller, ask):
            problem = problem_of(metric)
            if problem:
                self._leave_out(controller, str(metric.name), problem)
            else:
                yield copy_of(metric)

    def _answer(self, controller: str, ask: Ask) -> Sequence[Metric]:
        try:
            return ask()
        except PLUGIN_FAILURES as error:
            self.errors[controller] = self.errors.get(controller, 0) + 1
            own = isinstance(error, HostError)
            text = str(error) if own else f"{type(error).__name__}: {error}"
            self._warn("a controller's metrics failed", controller=controller, error=text)
            return ()

    def _leave_out(self, controller: str, name: str, problem: str) -> None:
        self._warn("a metric is left out", controller=controller, metric=name, problem=problem)

    def _warn(self, event: str, **pairs: str) -> None:
        fact = (event, *pairs.values())
        if fact not in self._logged:
            self._logged.add(fact)
            log.warning(event, extra={"kv": pairs})
