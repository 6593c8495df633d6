"""What quotas showed while pods came and went: how late they were, and where they went back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bench import quotas
from bench.churn import BYTES, SPECS, TELLING, Counts, Event, before
from bench.following import Sighting


@dataclass(frozen=True, slots=True)
class Shown:
    """What one quota counted, and when it was seen."""

    at: float
    counts: Counts


@dataclass(frozen=True, slots=True)
class Sent:
    """An event, and when the request that the API server accepted was sent and answered."""

    event: Event
    sent_at: float
    answered_at: float
    refused: int
    """How many tries before it ended in a conflict over a quota, which admission gives up on."""


def shown(
    sightings: Sequence[Sighting], *, loaded: int, sent: Sequence[Sent]
) -> Mapping[str, Sequence[Shown]]:
    """Return what each quota counted at each sighting, by its name, in order."""
    history: dict[str, list[Shown]] = {name: [] for name in SPECS}
    old = before(loaded)
    for sighting in sightings:
        name = sighting.object["metadata"]["name"]
        if amounts := quotas.used(sighting.object):
            number = int(amounts["pods"])
            made = _made(name, amounts, sighting.at, sent=sent)
            counts = Counts(made, old[name] + made - number)
            history[name].append(Shown(sighting.at, counts))
    return history


def _made(quota: str, amounts: quotas.Amounts, at: float, sent: Sequence[Sent]) -> int:
    """
    Return how many new pods a quota counts.

    Where only pods are limited, that is all whose creation was answered, because admission counts
    them before. One that is counted and not answered yet seems to be a deletion not counted.
    """
    if quota in TELLING:
        return int(amounts[TELLING[quota]] - BYTES * amounts["pods"])
    return max((each.event.after[quota].made for each in sent if each.answered_at <= at), default=0)


def lags(history: Mapping[str, Sequence[Shown]], sent: Sequence[Sent]) -> Sequence[float]:
    """
    Give, for each deletion, the seconds until all quotas that it concerns had counted it.

    Nothing, 0, when a watch showed that before the deletion was answered.
    """
    return [_lag(history, each) for each in sent if not each.event.creates]


def _lag(history: Mapping[str, Sequence[Shown]], deletion: Sent) -> float:
    counted = (
        _first(history[quota], deletion.event.after[quota].gone)
        for quota in deletion.event.concerned
    )
    return max(0.0, max(counted) - deletion.answered_at)


def _first(history: Sequence[Shown], gone: int) -> float:
    return next(shown.at for shown in history if shown.counts.gone >= gone)


def steps_back(history: Mapping[str, Sequence[Shown]], sent: Sequence[Sent]) -> int:
    """
    Return how many times a quota forgot a new pod, or counted again one that is gone.

    Only those quotas are looked at whose amounts tell the two apart. To take off a pod that
    admission counted and then refused is right.
    """
    return sum(
        after.counts.gone < then.counts.gone
        or after.counts.made < min(then.counts.made, _sent(quota, after.at, sent))
        for quota in TELLING
        for then, after in pairwise(history[quota])
    )


def _sent(quota: str, at: float, sent: Sequence[Sent]) -> int:
    """Return how many new pods of a quota had been sent and were, then or later, accepted."""
    return max((each.event.after[quota].made for each in sent if each.sent_at <= at), default=0)
