"""What is another one each time is taken out of objects, and what points to what stays."""

from typing import Any

from parity.normalise import normalised

UIDS = [f"{number:08}-0000-4000-8000-000000000000" for number in range(3)]


TIME = "2026-01-02T03:04:05Z"


def pod(uid: str) -> dict[str, Any]:
    """Return a pod as a server has it."""
    metadata = {"name": "s001z-p", "namespace": "s001z-ns", "uid": uid}
    return {"metadata": {**metadata, "resourceVersion": "17", "creationTimestamp": TIME}}


def claim(uid: str, owner: str, *, suffix: str, request: str) -> dict[str, Any]:
    """Return a claim whose name the server made, and which belongs to somebody."""
    fields: Any = {"f:metadata": {"f:ownerReferences": {f'k:{{"uid":"{owner}"}}': {}}}}
    update = {"manager": "m", "operation": "Update", "apiVersion": "v1", "time": TIME}
    metadata = {
        "name": f"s001z-p-gpu-{suffix}",
        "generateName": "s001z-p-gpu-",
        "namespace": "s001z-ns",
        "uid": uid,
        "ownerReferences": [{"name": "s001z-p", "uid": owner}],
        "managedFields": [{**update, "fieldsV1": fields}],
    }
    return {"metadata": metadata, "spec": {"request": request, "since": TIME}}


def both(*suffixes: str, owner: str = UIDS[0], uids: list[str] = UIDS) -> dict[str, Any]:
    """Return a pod with two claims, made in the order of the suffixes."""
    claims = [
        claim(uid, owner, suffix=suffix, request=request)
        for uid, suffix, request in zip(uids[1:], suffixes, ("first", "second"), strict=True)
    ]
    return normalised({"pods": [pod(uids[0])], "resourceclaims": claims}, "s001z-")


def test_ids_names_and_times_do_not_count() -> None:
    """Other uids, other generated suffixes and another order give the same objects."""
    assert both("xxxxx", "aaaaa") == both("bbbbb", "yyyyy", owner=UIDS[2], uids=UIDS[::-1])


def test_what_refers_to_whom_stays() -> None:
    """An owner is told by its name, so another owner is a difference."""
    made = both("xxxxx", "aaaaa")
    (first,) = [one for ref, one in made.items() if ref.endswith("<1>")]
    assert first["metadata"]["ownerReferences"] == [{"name": "$p", "uid": "<uid of pods/$ns/$p>"}]
    assert first["managedFields"][0]["fields"] == [
        'f:metadata f:ownerReferences k:{"uid":"<uid of pods/$ns/$p>"}'
    ]
    assert both("xxxxx", "aaaaa", owner=UIDS[2], uids=UIDS) != made


def test_names_are_those_of_the_scenario() -> None:
    """The prefix that made names unique is gone, and generated names are numbered."""
    assert list(both("xxxxx", "aaaaa")) == [
        "pods/$ns/$p",
        "resourceclaims/$ns/$p-gpu-<1>",
        "resourceclaims/$ns/$p-gpu-<2>",
    ]
