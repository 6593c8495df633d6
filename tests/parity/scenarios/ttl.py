"""The ttl controller: single nodes, faults, and the table of steps."""

from typing import Any

from parity.scenario import Cluster, stories
from parity.scenarios.nodes import TTL, annotate, gone, heartbeat, heartbeats, node, nodes
from parity.steps import RESTART, Look, Machine, Quiet, Refuse, apply, delete, patch

ttl = stories("ttl")
proxied = stories("ttl", cluster=Cluster(proxied=True))
#: Texts that are the number 0, and texts that are none or another one.
ZEROS = ("0", "000", "+0", "-0", "0" * 300)
OTHERS = (
    "abc", "", " 0", "0 ", "0.0", "0s", "0_0", "0x0", "+", "-", "+-0", "--0", "\u0660",
    "9223372036854775807", "9223372036854775808", "-1", "+15", "1e0",
)  # fmt: skip

NODES = (
    ttl("a node without annotations gets zero", "TTL-T1, TTL-54", node("n")),
    ttl("a node that is there at the start", "TTL-20, TTL-T1", before=(node("n"),)),
    ttl("a right node is left alone", "TTL-T2, TTL-33", node("n", "0"), before=(node("m", "0"),)),
    ttl(
        "numbers are compared and not texts",
        "TTL-40, TTL-42",
        *(node(f"late{number}", text) for number, text in enumerate(ZEROS)),
        before=tuple(node(f"early{number}", text) for number, text in enumerate(ZEROS)),
    ),
    ttl(
        "what is no number or another one is overwritten",
        "TTL-41, TTL-T16, TTL-T28",
        *(node(f"n{number:02}", text) for number, text in enumerate(OTHERS)),
    ),
    ttl("other annotations stay", "TTL-51, TTL-T17", node("n", "abc", other="stays")),
    ttl(
        "a value set by hand is put right",
        "TTL-T26, TTL-83",
        node("n"),
        Quiet(),
        annotate("n", "30"),
        Look("after 30"),
        annotate("n", "x"),
    ),
    ttl("a value taken away comes back", "TTL-33", node("n"), Quiet(), annotate("n", None)),
    ttl(
        "an equal value by hand keeps its text", "TTL-42", node("n"), Quiet(), annotate("n", "+000")
    ),
    ttl(
        "a change of something else writes nothing",
        "TTL-T23, TTL-T24, TTL-81",
        node("n"),
        Quiet(),
        heartbeat("n", 1),
        Quiet(),
        patch(
            "nodes/$n", {"metadata": {"labels": {"some": "label"}}, "spec": {"unschedulable": True}}
        ),
    ),
    ttl(
        "another manager applies the annotation",
        "TTL-52, TTL-53, TTL-83",
        node("n"),
        Quiet(),
        apply("nodes/$n", {"metadata": {"annotations": {TTL: "60"}}}, manager="syncer"),
        Look("after one apply"),
        apply("nodes/$n", {"metadata": {"annotations": {"other": "1"}}}, manager="syncer"),
    ),
    ttl(
        "a deleted node is forgotten, a new one of the name is not",
        "TTL-30, TTL-22",
        node("n"),
        Quiet(),
        delete("nodes/$n"),
        Look("without it"),
        node("n", "15"),
    ),
    ttl(
        "a node that is being deleted is still one",
        "TTL-21, TTL-22",
        node("n"),
        patch("nodes/$n", {"metadata": {"finalizers": ["example.com/wait"]}}),
        delete("nodes/$n"),
        Quiet(),
        annotate("n", "15"),
        Look("deleted and annotated"),
        patch("nodes/$n", {"metadata": {"finalizers": None}}),
    ),
    ttl(
        "a node comes and goes at once",
        "TTL-30, TTL-61",
        node("n"),
        delete("nodes/$n"),
        node("m"),
        counted=False,
    ),
    ttl(
        "five changes at once end in one value",
        "TTL-T25",
        node("n"),
        Quiet(),
        *(annotate("n", f"{number}") for number in range(5, 0, -1)),
        counted=False,
    ),
    ttl(
        "what changed while the controllers were down",
        "TTL-10, TTL-20",
        Machine.STOP,
        node("new"),
        annotate("old", "15"),
        annotate("right", "00"),
        delete("nodes/$gone"),
        Machine.START,
        before=(node("old"), node("right"), node("gone")),
    ),
    ttl("a restart writes nothing", "TTL-10, TTL-33", Quiet(), *RESTART, before=(node("n"),)),
    ttl(
        "killed in the midst of work",
        "TTL-10, TTL-62",
        nodes(range(30)),
        Machine.KILL,
        annotate("old", "15"),
        node("late"),
        Machine.START,
        before=(node("old"),),
        counted=False,
    ),
    ttl(
        "the API server restarts",
        "TTL-6, TTL-20",
        node("early"),
        Quiet(),
        Machine.RESTART_SERVER,
        node("late"),
        annotate("early", "60"),
        counted=False,
    ),
    ttl(
        "the watches expire",
        "TTL-20, TTL-22",
        node("early"),
        node("gone"),
        Quiet(),
        Machine.EXPIRE,
        delete("nodes/$gone"),
        node("late"),
        annotate("early", "60"),
    ),
    proxied(
        "an error is retried",
        "TTL-T19, TTL-60, TTL-61",
        Refuse("nodes/$n", 500, 2),
        node("n"),
    ),
    *(
        proxied(
            f"an answer {code} is retried",
            "TTL-61",
            Refuse("nodes/$n", code, 3),
            node("n"),
        )
        for code in (403, 404, 409, 503)
    ),
    proxied(
        "after an answer 404 a node that is gone is forgotten",
        "TTL-T20, TTL-61",
        Refuse("nodes/$n", 404, 100_000),
        node("n"),
        Quiet(),
        delete("nodes/$n"),
        counted=False,
    ),
    proxied(
        "a retry takes the value of its time",
        "TTL-62",
        Refuse("nodes/$n", 500, 4),
        node("n"),
        annotate("n", "x"),
    ),
)

#: Scenarios that count nodes, each on a server whose nodes are its own.
counting = stories("ttl", alone=True)
#: Where there are hundreds, ten of them report and are looked at.
TEN, OF_TEN = range(10), "nodes/$n000"


def _reports(beat: int, *, of: range = TEN) -> tuple[Any, ...]:
    """Report the status of nodes once the step is known, and look at them."""
    only = OF_TEN if of == TEN else ""
    return Quiet(), heartbeats(of, beat), Look(f"after report {beat}", only)


def _down(beat: int, highest: int, count: int) -> tuple[Any, ...]:
    """Leave so many of the nodes up to the highest."""
    return gone(range(count, highest)), *_reports(beat)


TABLE = (
    counting(
        "one node above a hundred",
        "TTL-T3, TTL-T4, TTL-T5, TTL-24",
        nodes(range(1, 100)),
        Look("with 100"),
        nodes([100]),
        *_reports(1, of=range(101)),
        before=(nodes([0]),),
    ),
    counting(
        "a change of step is told to all at once",
        "TTL-26",
        nodes([100]),
        Look("with 101"),
        before=(nodes(range(100)),),
        differs=("ttl d",),
    ),
    counting(
        "ninety and one less",
        "TTL-T6, TTL-T7, TTL-T8, TTL-82",
        nodes([100]),
        *_reports(1, of=range(101)),
        gone(range(90, 101)),
        *_reports(2, of=range(90)),
        gone([89]),
        *_reports(3, of=range(89)),
        nodes(range(89, 100)),
        *_reports(4, of=range(100)),
        nodes([100]),
        *_reports(5, of=range(101)),
        before=(nodes(range(100)),),
    ),
    counting(
        "a start comes from below",
        "TTL-10, TTL-82",
        Look("95 at the start"),
        nodes(range(95, 102)),
        *_reports(1, of=range(102)),
        gone(range(95, 102)),
        *_reports(2, of=range(95)),
        *RESTART,
        Look("95 after a restart"),
        before=(nodes(range(95), "15"),),
        counted=False,
    ),
    counting(
        "a start above the first step",
        "TTL-32, TTL-T9",
        Quiet(),
        annotate("n0007", "0"),
        before=(nodes(range(130)),),
    ),
    counting(
        "between 15 and 30 seconds",
        "TTL-T9, TTL-T10",
        nodes([500]),
        *_reports(1),
        gone(range(450, 501)),
        *_reports(2),
        gone([449]),
        *_reports(3),
        gone(range(10, 449)),
        Quiet(),
        heartbeats(TEN, 4),
        before=(nodes(range(500), "15"),),
        counted=False,
    ),
    counting(
        "the whole table, from the top down",
        "TTL-T11 to TTL-T14, TTL-25",
        *_reports(1),
        *_down(2, 2001, 1800),
        *_down(3, 1800, 1799),
        *_down(4, 1799, 900),
        *_down(5, 900, 899),
        *_down(6, 899, 450),
        *_down(7, 450, 449),
        *_down(8, 449, 90),
        *_down(9, 90, 89),
        gone(range(10, 89)),
        before=(nodes(range(2001), "300"),),
        counted=False,
    ),
)

SCENARIOS = (*NODES, *TABLE)
