"""Quantities as a real server parses, rounds, returns and rejects them."""

import json
import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from host.api.quantity_vectors import PARSED, REFUSED
from kubernetes import client

from kcm_host.api import Quantity, QuantityError
from kcm_host.api.quantity import NANO, canonical
from kcm_host_testing.api_server import ApiServer

MILLI = NANO // 1000
TEXTS = {vector: text for vector, text, *_ in PARSED}
#: Invalid part of a text -> text of the server's error.
ANSWERS = {
    "format": "quantities must match the regular expression",
    "suffix": "unable to parse quantity's suffix",
    "numeric": "unable to parse numeric part of quantity",
}
#: The reference drops the scale beyond its suffixes (RQ-299); D-16 does not.
SHOWN_OTHERWISE = {"1000E": "1"}
#: JSON strings are trimmed before they are parsed (RQ-271).
TRIMMED = "1Gi "

Served = Callable[[Iterable[str]], list[str]]
Kubectl = Callable[..., str]


@pytest.fixture
def served(api_server: ApiServer, namespace: str) -> Served:
    """Return the texts that the server stores, each a limit of one quota."""
    api: Any = client.CoreV1Api(api_server.client())

    def ask(texts: Iterable[str]) -> list[str]:
        hard = {f"requests.example.com/v{number}": text for number, text in enumerate(texts)}
        quota = {"metadata": {"generateName": "texts-"}, "spec": {"hard": hard}}
        answer = api.create_namespaced_resource_quota(namespace, quota, dry_run="All")
        return [answer.spec.hard[name] for name in hard]

    return ask


def refusal(served: Served, text: str) -> tuple[int, str]:
    """Return code and message with which the server rejects a text."""
    with pytest.raises(client.ApiException) as refused:
        served([text])
    return refused.value.status, str(json.loads(str(refused.value.body))["message"])


def as_served(text: str) -> str:
    """Return the text that the server returns, rounded away from 0 to milli units (RQ-291)."""
    quantity = Quantity.parse(text)
    if not quantity.nano % MILLI:
        return SHOWN_OTHERWISE.get(text) or str(quantity)
    up = -(-abs(quantity.nano) // MILLI) * MILLI
    return canonical(up if quantity.nano > 0 else -up, quantity.format)


def test_the_server_formats_the_vectors_as_we_do(served: Served) -> None:
    """Every text of the vectors is rounded to milli and formatted alike (RQ-271 to RQ-300)."""
    texts = [text for text in TEXTS.values() if Quantity.parse(text).nano >= 0]
    assert dict(zip(texts, served(texts), strict=True)) == {text: as_served(text) for text in texts}


@pytest.mark.parametrize(
    "text",
    [text for text in TEXTS.values() if Quantity.parse(text).nano < 0] + ["-8Ei", "-1e-10", "-.1n"],
)
def test_the_server_parses_negative_texts_as_we_do(served: Served, text: str) -> None:
    """No quota has a negative limit, but the error has the parsed number (RQ-282, RQ-291)."""
    code, message = refusal(served, text)
    assert code == 422
    assert f'Invalid value: "{as_served(text)}"' in message


@pytest.mark.parametrize(
    ("text", "sort"),
    [pytest.param(*fields, id=vector) for vector, *fields in REFUSED if fields[0] != TRIMMED],
)
def test_the_server_rejects_what_we_reject(served: Served, text: str, sort: str) -> None:
    """It stores no text that is invalid here, and has the same reason (RQ-275 to RQ-278)."""
    code, message = refusal(served, text)
    assert code == 400
    assert ANSWERS[sort] in message


def test_the_server_reads_other_json_values(kubectl: Kubectl, namespace: str) -> None:
    """Numbers and null are values, white space is trimmed (QV-123, RQ-271)."""
    hard = {"pods": 5, "cpu": 1.5, "memory": None, "requests.storage": TRIMMED, "services": " 2"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "any"}}
    command = ("create", "-n", namespace, "-f", "-", "--dry-run=server", "--validate=ignore")
    answer = kubectl(*command, "-o", "json", stdin=json.dumps(quota | {"spec": {"hard": hard}}))
    assert json.loads(answer)["spec"]["hard"] == {
        **{name: str(Quantity.parse(hard[name])) for name in ("pods", "cpu", "memory")},
        "requests.storage": "1Gi",
        "services": "2",
    }


def test_texts_of_the_server_are_parsed_unchanged(served: Served) -> None:
    """A half kibibyte is a decimal `512` after the first read (RQ-291)."""
    (text,) = served(["0.5Ki"])
    assert text == "512"
    assert Quantity.parse(text).format is not Quantity.parse("0.5Ki").format


def random_texts(seed: int, count: int) -> list[str]:
    """Return texts of the grammar and similar ones, none below 0."""
    rnd = random.Random(seed)
    suffixes = [*"numkMGTPE", "", *(f"{s}i" for s in "KMGTPE"), "K", "ki", "e", "Ei5"]
    suffixes += [f"{e}{sign}{rnd.randint(0, 14)}" for e in "eE" for sign in ("", "+", "-")]

    def text() -> str:
        whole = "".join(rnd.choices("0012345678", k=rnd.randint(0, 13)))
        fraction = "".join(rnd.choices("00125", k=rnd.randint(0, 10)))
        point = rnd.choice([f".{fraction}", "", ""])
        zeros = rnd.choice(["", "", "000"])
        return f"{rnd.choice(['', '', '+'])}{whole}{zeros}{point}{rnd.choice(suffixes)}"

    return [text() for _ in range(count)]


def sort_of(text: str) -> str:
    """Return why a text is rejected; empty if it is valid."""
    try:
        Quantity.parse(text)
    except QuantityError as error:
        return error.part
    return ""


@pytest.mark.parametrize("seed", range(4))
def test_the_server_agrees_about_random_texts(served: Served, seed: int) -> None:
    """Valid texts are formatted alike, invalid ones have the same reason (RQ-275 to RQ-300)."""
    sorts = {text: sort_of(text) for text in random_texts(seed, 600)}
    read = [
        text
        for text, sort in sorts.items()
        if not sort and Quantity.parse(text).nano < 10**21 * NANO
    ]
    assert len(read) > 300
    assert dict(zip(read, served(read), strict=True)) == {text: as_served(text) for text in read}
    for text, sort in [(text, sort) for text, sort in sorts.items() if sort][:25]:
        assert ANSWERS[sort] in refusal(served, text)[1], text
