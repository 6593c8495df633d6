"""Label and field selectors of watches, in the text form of the Kubernetes API."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kcm_host_testing.harness.errors import needs_server

Object = dict[str, Any]
Matches = Callable[[Object], bool]

_TERM = re.compile(r"[^,(]+(?:\([^)]*\))?")
_IN = re.compile(r"(?P<key>\S+)\s+(?P<operator>in|notin)\s*\((?P<values>[^)]*)\)")
_EQUAL = re.compile(r"(?P<key>[^\s=!]+)\s*(?P<operator>==|=|!=)\s*(?P<value>[^\s=!]*)")
_EXISTS = re.compile(r"(?P<not>!?)\s*(?P<key>[^\s=!]+)")


def selection(namespace: str, label_selector: str, field_selector: str) -> Matches:
    """Return a function that tells whether an object is selected by all three; empty: all."""
    terms = [*_labels(label_selector), *_fields(field_selector)]

    def matches(body: Object) -> bool:
        if namespace and body["metadata"].get("namespace") != namespace:
            return False
        return all(term(body) for term in terms)

    return matches


def _labels(selector: str) -> Iterator[Matches]:
    for text in map(str.strip, _TERM.findall(selector)):
        term = _label_term(text)

        def matches(body: Object, term: Callable[[Mapping[str, str]], bool] = term) -> bool:
            return term(body["metadata"].get("labels") or {})

        yield matches


def _label_term(text: str) -> Callable[[Mapping[str, str]], bool]:
    if found := _IN.fullmatch(text):
        key, values = found["key"], {value.strip() for value in found["values"].split(",")}
        if found["operator"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUAL.fullmatch(text):
        key, value = found["key"], found["value"]
        if found["operator"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _EXISTS.fullmatch(text):
        key, is_wanted = found["key"], not found["not"]
        return lambda labels: (key in labels) == is_wanted
    raise needs_server(f"the term {text!r} of a label selector")


def _fields(selector: str) -> Iterator[Matches]:
    for text in filter(None, map(str.strip, selector.split(","))):
        found = _EQUAL.fullmatch(text)
        if found is None:
            raise needs_server(f"the term {text!r} of a field selector")
        path, value = found["key"].split("."), found["value"]
        is_wanted = found["operator"] != "!="

        def matches(
            body: Object, path: list[str] = path, value: str = value, is_wanted: bool = is_wanted
        ) -> bool:
            return (_text_at(body, path) == value) == is_wanted

        yield matches


def _text_at(body: Any, path: list[str]) -> str:
    """Return the field as a selector compares it: an absent one is empty."""
    for name in path:
        body = body.get(name) if isinstance(body, Mapping) else None
    if isinstance(body, bool):
        return str(body).lower()
    return "" if body is None else str(body)
