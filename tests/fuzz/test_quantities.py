"""Whatever a tenant writes as a quantity: its number as the reference reads it, or one error."""

import json
import re
from fractions import Fraction
from operator import add, sub
from typing import Any

from fuzz_input import one_input
from host.api.quantity_vectors import PARSED, REFUSED
from hypothesis import given
from hypothesis import strategies as st

from kcm_host.api import Quantity, QuantityError, QuantityFormat
from kcm_host.api.quantity import MAX_DIGITS, NANO, canonical
from kcm_host.informer import decoder
from kcm_host.informer.shared_informer import SharedInformer
from kcm_host_resourcequota.evaluators.persistentvolumeclaims import PersistentVolumeClaim
from kcm_host_resourcequota.evaluators.pods import Pod
from kcm_host_resourcequota.models import RESOURCE_QUOTA, QuotaObject

VECTORS = [row[1] for row in PARSED] + [row[1] for row in REFUSED]
DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
CAP = 2**63 - 1

digits = st.text("0123456789", max_size=25)
exponents = st.one_of(
    st.integers(-30, 30), st.integers(-(2**33), 2**33), st.integers(MAX_DIGITS - 20, MAX_DIGITS)
)
suffixes = st.one_of(
    st.sampled_from([*DECIMAL, *BINARY]),
    st.builds(lambda letter, size: f"{letter}{size}", st.sampled_from("eE"), exponents),
)
numbers = st.builds(
    lambda sign, whole, point, fraction: sign + whole + (point + fraction if point else ""),
    st.sampled_from(["", "+", "-"]),
    digits,
    st.sampled_from(["", "."]),
    digits,
)
formed = st.builds(lambda number, suffix: number + suffix, numbers, suffixes)
long = st.builds(
    lambda digit, count, suffix: digit * count + suffix,
    st.sampled_from(["9", "0", "1.", "-7", "0.0", "e", "E9", "Ki"]),
    st.one_of(st.integers(0, 40), st.integers(1900, 4100), st.just(10**6)),
    suffixes,
)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """Return a vector of the specification with something put in, left out or doubled."""
    text = draw(st.sampled_from(VECTORS))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(text)))
        end = draw(st.integers(place, min(place + 2, len(text))))
        between = draw(st.one_of(st.text(max_size=2), st.sampled_from([*"0.e+-E9i", text[place:]])))
        text = text[:place] + between + text[end:]
    return text


texts = st.one_of(formed, formed, long, mutated(), st.text(max_size=12))


def reference(text: str) -> Fraction | None:
    """The number of a text by the rules of the reference, None if it is too long for that."""
    match = re.fullmatch(r"([+-]?)([0-9]*)\.?([0-9]*)(.*)", text, re.DOTALL)
    assert match is not None, text
    sign, whole, fraction, suffix = match.groups()
    is_exponent = suffix not in DECIMAL and suffix not in BINARY
    power = int(suffix[1:]) if is_exponent else DECIMAL.get(suffix, 0)
    if abs(power) > MAX_DIGITS:
        return None
    value = Fraction(int(whole + fraction or "0"), 10 ** len(fraction))
    value *= Fraction(2) ** BINARY[suffix] if suffix in BINARY else Fraction(10) ** power
    nano = -((-value * NANO) // 1)
    if suffix in BINARY:
        nano = min(nano, CAP * NANO)
    return Fraction(-nano if sign == "-" else nano)


@given(text=texts)
def test_a_text_has_the_number_of_the_reference_or_is_refused(text: str) -> None:
    """In a moment, also where the number would have billions of digits (RQ-275 to RQ-283, D-16)."""
    with one_input("quantities", refused_by=(QuantityError,)):
        quantity = Quantity.parse(text)
        expected = reference(text)
        if expected is not None:
            assert quantity.nano == expected
        assert len(f"{abs(quantity.nano)}") <= MAX_DIGITS + len("999999999")
        for written in (
            str(quantity),
            *(canonical(quantity.nano, each) for each in QuantityFormat),
        ):
            assert Quantity.parse(written).nano == quantity.nano


@given(a=texts, b=texts)
def test_sums_can_be_written_and_read_back(a: str, b: str) -> None:
    """Sums are exact, in nano units, and what is written of them means the same (RQ-303)."""
    with one_input("sums of quantities", refused_by=(QuantityError,)):
        one, other = Quantity.parse(a), Quantity.parse(b)
        for found, number in (
            (add(one, other), one.nano + other.nano),
            (sub(one, other), one.nano - other.nano),
        ):
            assert found.nano == number
            assert Quantity.parse(str(found)).nano == number
        up = Quantity.round_up(Quantity(one.nano, one.format))
        assert abs(up.nano) >= abs(one.nano)
        assert abs(up.nano) - abs(one.nano) < NANO


amounts: Any = st.dictionaries(
    st.sampled_from(["cpu", "memory", "storage", "pods", "example.com/gpu"]),
    st.one_of(texts, st.integers(), st.floats(), st.none(), st.booleans(), st.just({})),
    max_size=3,
)


@given(hard=amounts, used=amounts, requests=amounts)
def test_an_object_with_any_quantities_is_read_or_marked(
    hard: Any, used: Any, requests: Any
) -> None:
    """One that misfits is undecodable for the host, and nothing else happens (RQ-75)."""
    resources = {"requests": requests, "limits": used}
    bodies = {
        QuotaObject: {"spec": {"hard": hard}, "status": {"hard": hard, "used": used}},
        Pod: {"spec": {"containers": [{"name": "c", "resources": resources}]}},
        PersistentVolumeClaim: {
            "spec": {"resources": resources},
            "status": {"allocatedResources": used},
        },
    }
    for model, body in bodies.items():
        with one_input(f"quantities in a {model.__name__}"):
            line = json.dumps(
                {"type": "ADDED", "object": {"metadata": {"name": "o", "uid": "u"}, **body}}
            ).encode()
            feed = SharedInformer(RESOURCE_QUOTA)
            store = feed.typed_informer(model).store
            feed.apply("ADDED", line, decoder.decode_event(line).object)
            assert len(store) == 1
