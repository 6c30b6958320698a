"""Payloads are validated when scheduled and at dispatch, and contain only values that JSON and Postgres can store."""

from __future__ import annotations

import json
import typing
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from types import MappingProxyType
from typing import Annotated, Any, Literal, NotRequired
from uuid import UUID

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import BaseModel, ConfigDict, Field, SecretStr, computed_field, field_validator, model_validator
from pydantic.errors import PydanticUndefinedAnnotation
from typing_extensions import TypedDict

from scheduled_actions.core.errors import InvalidArgument, PayloadInvalid, TooLarge
from scheduled_actions.core.json_text import decode, encode
from scheduled_actions.registry.payloads import PayloadModel

LIMIT = 256 * 1024


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Plain(Enum):
    ONE = "one"


@dataclass
class Point:
    x: int
    at: datetime


class Welcome(BaseModel):
    to: str
    count: int = 1


class Aliased(BaseModel):
    model_config = ConfigDict(extra="forbid")

    user_id: Annotated[int, Field(alias="userId")]

    @computed_field
    def twice(self) -> int:
        return self.user_id * 2


class Secretive(BaseModel):
    password: SecretStr


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=20,
)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


@settings(max_examples=200, deadline=None)
@given(json_values)
def test_encoded_values_are_decoded_unchanged(value):
    text = encode("payload", value, limit=LIMIT)

    assert decode(text) == value
    assert json.loads(text) == value


def test_json_is_compact_and_not_escaped():
    assert encode("payload", {"name": "Zoë", "tags": ("a", "b")}, limit=LIMIT) == '{"name":"Zoë","tags":["a","b"]}'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (datetime(2026, 3, 1, 9, tzinfo=UTC), '"2026-03-01T09:00:00Z"'),
        (date(2026, 3, 1), '"2026-03-01"'),
        (timedelta(minutes=5), '"PT5M"'),
        (UUID(int=7), '"00000000-0000-0000-0000-000000000007"'),
        (Decimal("1.50"), '"1.50"'),
        (Colour.RED, '"red"'),
        (Level.HIGH, "3"),
        (Plain.ONE, '"one"'),
        ({Colour.RED: 1}, '{"red":1}'),
        (Point(1, datetime(2026, 3, 1, tzinfo=UTC)), '{"x":1,"at":"2026-03-01T00:00:00Z"}'),
        (Welcome(to="ann"), '{"to":"ann","count":1}'),
        (Aliased(userId=1), '{"userId":1}'),
        (OrderedDict(a=[Welcome(to="ann")]), '{"a":[{"to":"ann","count":1}]}'),
        (MappingProxyType({"a": {1}}), '{"a":[1]}'),
        ("a backslash: \\u0000", '"a backslash: \\\\u0000"'),
    ],
)
def test_types_with_a_json_form_are_converted(value, text):
    assert encode("payload", value, limit=LIMIT) == text


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": float("nan")}, "payload.a is nan; JSON has only finite numbers"),
        ({"a": [0, float("-inf")]}, "payload.a.1 is -inf; JSON has only finite numbers"),
        ({"a": {"b": "x\0y"}}, "payload.a.b contains a NUL character"),
        ({"a\0": 1}, "payload contains a NUL character"),
        ({"a": "\ud800"}, "payload.a contains half a surrogate pair"),
        ({"\udfff": 1}, "payload contains half a surrogate pair"),
        ({"a": 10**4300}, "payload.a is an integer of more than 4,300 digits"),
        ({"a": -(10**4300)}, "payload.a is an integer of more than 4,300 digits"),
        ({"a": {1: "x"}}, "payload.a has a key of type int"),
        ({None: "x"}, "payload has a key of type NoneType"),
        ({"a": object()}, "payload.a is of type object"),
        ({"a": b"\xff"}, "payload.a is of type bytes"),
        (Point(1, 2**20_000), "payload.at is an integer of more than 4,300 digits"),
        ({"a": SecretStr("hunter2")}, "payload.a is a secret"),
        (Secretive(password="hunter2"), "payload is a secret"),
        ({"a": nested(100)}, "nested deeper than 100 levels"),
    ],
)
def test_values_that_postgres_cannot_store_are_rejected_with_their_location(value, message):
    with pytest.raises(InvalidArgument) as refusal:
        encode("payload", value, limit=LIMIT)

    assert message in str(refusal.value)


def test_the_longest_valid_integer_and_the_deepest_valid_nesting_are_decoded_unchanged():
    value = [10**4300 - 1, -(10**4300) + 1, nested(99)]

    assert decode(encode("payload", value, limit=LIMIT)) == value


def test_a_value_that_contains_itself_is_rejected():
    circle: dict[str, Any] = {}
    circle["inside"] = circle

    with pytest.raises(InvalidArgument, match="nested deeper than 100 levels"):
        encode("payload", circle, limit=LIMIT)


def test_the_size_is_counted_in_bytes():
    assert encode("payload", "éé", limit=6) == '"éé"'

    with pytest.raises(TooLarge) as refusal:
        encode("payload", "ééé", limit=6)

    assert (refusal.value.name, refusal.value.size, refusal.value.limit) == ("payload", 8, 6)


@pytest.mark.parametrize(
    "text",
    [
        "1" * 5001,
        '{"a": -' + "1" * 5001 + "}",
        "[" * 7000 + "]" * 7000,
        '{"a":' * 7000 + "1" + "}" * 7000,
        "[" * 101 + "]" * 101,
        "[" * 150 + '"[[[["' + "]" * 150,
        "NaN",
        "[Infinity]",
        '"\\ud800"',
        '"\ud800"',
        "",
        "{",
        '{"a": 1} {"b": 2}',
        None,
    ],
)
def test_invalid_json_raises_one_type_of_error(text):
    with pytest.raises(InvalidArgument, match=r"^state (is not JSON|contains an integer of more|is nested deeper)"):
        decode(text, name="state")


def test_brackets_in_strings_do_not_count_as_nesting():
    text = json.dumps(["[{" * 200])

    assert decode(text) == ["[{" * 200]


def test_adjacent_containers_do_not_count_as_nesting():
    assert decode(json.dumps([[]] * 500)) == [[]] * 500


def test_an_error_of_decode_does_not_repeat_the_text():
    with pytest.raises(InvalidArgument) as refusal:
        decode('{"password": "hunter2"')

    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize("annotation", [dict, dict[str, Any], Any, object])
def test_a_handler_without_a_model_gets_the_object_unchanged(annotation):
    model = PayloadModel.of("a:b", annotation)

    assert model.validate_text('{"x": [1, null]}') == {"x": [1, None]}
    assert model.json_schema() == {"type": "object"}


def test_a_handler_without_an_annotation_gets_the_object_unchanged():
    assert PayloadModel.of("a:b").validate_text('{"x": 1}') == {"x": 1}


class Typed(typing.TypedDict):
    x: int
    inner: NotRequired[Inner]


class Inner(typing.TypedDict, total=False):
    at: datetime


class Extended(TypedDict):
    x: int


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (Welcome, '{"to": "ann", "count": "2"}', Welcome(to="ann", count=2)),
        (Point, '{"x": 1, "at": "2026-03-01T00:00:00Z"}', Point(1, datetime(2026, 3, 1, tzinfo=UTC))),
        (Extended, '{"x": "1"}', {"x": 1}),
        (Typed, '{"x": "1"}', {"x": 1}),
        (
            Typed,
            '{"x": 1, "inner": {"at": "2026-03-01T00:00:00Z"}}',
            {"x": 1, "inner": {"at": datetime(2026, 3, 1, tzinfo=UTC)}},
        ),
        (list[Typed], '[{"x": "1"}]', [{"x": 1}]),
        (Typed | None, '{"x": "1"}', {"x": 1}),
        (Annotated[Typed, Field(description="d")], '{"x": "1"}', {"x": 1}),
        (dict[str, int], '{"x": "1"}', {"x": 1}),
        (list[Welcome], '[{"to": "ann"}]', [Welcome(to="ann")]),
    ],
)
def test_a_handler_gets_an_instance_of_its_annotation(annotation, text, value):
    assert PayloadModel.of("a:b", annotation).validate_text(text) == value


@pytest.mark.parametrize(
    ("annotation", "text", "problems"),
    [
        (Welcome, '{"count": "many"}', ["to: Field required", "count: Input should be a valid integer"]),
        (Welcome, "[1]", ["Input should be an object"]),
        (Welcome, "{", ["Invalid JSON"]),
        (Welcome, '{"to": ' + "[" * 7000 + "]" * 7000 + "}", ["Invalid JSON: recursion limit exceeded"]),
        (Welcome, '{"to": "a", "count": ' + "1" * 5001 + "}", ["Invalid JSON: number out of range"]),
        (Typed, '{"inner": {"at": 1}}', ["x: Field required"]),
        (list[Welcome], '[{"to": "a"}, {"to": 1}]', ["1.to: Input should be a valid string"]),
        (dict, "[1]", ["Input should be an object"]),
        (dict, "7", ["Input should be an object"]),
        (dict, "{", ["is not JSON: EOF while parsing an object at line 1 column 1"]),
        (dict, "[" * 7000 + "]" * 7000, ["is nested deeper than 100 levels"]),
        (dict, '{"a": ' + "1" * 5001 + "}", ["contains an integer of more than 4,300 digits"]),
    ],
)
def test_an_invalid_payload_is_rejected_with_every_invalid_field(annotation, text, problems):
    with pytest.raises(PayloadInvalid) as refusal:
        PayloadModel.of("a:b", annotation).validate_text(text)

    assert len(refusal.value.problems) == len(problems)
    for found, expected in zip(refusal.value.problems, problems, strict=True):
        assert expected in str(found)


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class ValidatedField(BaseModel):
    card: str

    @field_validator("card")
    @classmethod
    def _card(cls, value: str) -> str:
        message = f"{value} is no card"
        raise ValueError(message)


class ValidatedModel(BaseModel):
    card: str
    pins: list[int]

    @model_validator(mode="after")
    def _all(self) -> ValidatedModel:
        assert self.card == "", f"{self.card} with {self.pins} is no card"
        return self


@pytest.mark.parametrize(
    ("annotation", "payload", "message"),
    [
        (ValidatedField, {"card": "s3cret"}, "card: … is no card"),
        (ValidatedModel, {"card": "s3cret", "pins": [98765]}, "… with […] is no card"),
        (
            Annotated[Cat | Dog, Field(discriminator="kind")],
            {"kind": "s3cret"},
            "should be one of 'cat', 'dog'",
        ),
        (Welcome, {"to": ["s3cret"], "count": "s3cret"}, "Input should be a valid string"),
    ],
)
def test_an_error_does_not_contain_values_of_the_payload(annotation, payload, message):
    with pytest.raises(PayloadInvalid) as refusal:
        PayloadModel.of("a:b", annotation).prepare(payload)

    assert message in str(refusal.value)
    assert "s3cret" not in str(refusal.value)
    assert "98765" not in str(refusal.value)
    # A logged traceback does not contain the values either.
    assert refusal.value.__cause__ is None
    assert refusal.value.__suppress_context__


class Crashing(BaseModel):
    x: int

    @field_validator("x")
    @classmethod
    def _x(cls, value: int) -> int:
        return {}[value]


def test_an_unexpected_exception_of_a_validator_is_reported_with_its_location():
    with pytest.raises(PayloadInvalid, match=r"validation raised KeyError at test_payloads\.py:\d+") as refusal:
        PayloadModel.of("a:b", Crashing).validate_text('{"x": 424242}')

    assert "424242" not in str(refusal.value)


def test_problems_after_the_first_twenty_are_only_counted():
    with pytest.raises(PayloadInvalid) as refusal:
        PayloadModel.of("a:b", dict[str, int]).prepare({f"key{n}": "x" for n in range(1000)})

    assert len(refusal.value.problems) == 21
    assert str(refusal.value.problems[-1]) == "and 980 more"


@pytest.mark.parametrize(
    ("annotation", "payload", "text"),
    [
        (Welcome, {"to": "ann"}, '{"to":"ann"}'),
        (Welcome, Welcome(to="ann"), '{"to":"ann","count":1}'),
        (Aliased, Aliased(userId=3), '{"userId":3}'),
        (Point, Point(1, datetime(2026, 3, 1, tzinfo=UTC)), '{"x":1,"at":"2026-03-01T00:00:00Z"}'),
        (Point, {"x": 1, "at": datetime(2026, 3, 1, tzinfo=UTC)}, '{"x":1,"at":"2026-03-01T00:00:00Z"}'),
        (Typed, {"x": 1, "inner": {}}, '{"x":1,"inner":{}}'),
        (dict, {"anything": [1]}, '{"anything":[1]}'),
        (dict, Welcome(to="ann"), '{"to":"ann","count":1}'),
    ],
)
def test_a_prepared_payload_is_valid_at_dispatch(annotation, payload, text):
    model = PayloadModel.of("a:b", annotation)

    prepared = model.prepare(payload)

    assert prepared == text
    model.validate_text(prepared)


@pytest.mark.parametrize("payload", [[{"to": "ann"}], "{}", 7, None, b"{}", datetime(2026, 1, 1, tzinfo=UTC)])
@pytest.mark.parametrize("annotation", [Welcome, dict])
def test_a_payload_that_is_not_an_object_is_rejected(annotation, payload):
    with pytest.raises(InvalidArgument, match=r"^payload is of type \w+, not a JSON object"):
        PayloadModel.of("a:b", annotation).prepare(payload)


def test_a_payload_over_256_kib_is_rejected():
    with pytest.raises(TooLarge):
        PayloadModel.of("a:b", dict).prepare({"x": "y" * 256 * 1024})


def test_a_list_item_is_validated_inside_a_list_and_stored_alone():
    model = PayloadModel.of("a:b", list[Welcome])

    assert model.prepare({"to": "ann"}, is_list_item=True) == '{"to":"ann"}'

    with pytest.raises(PayloadInvalid) as refusal:
        model.prepare({"to": 1}, is_list_item=True)
    assert [problem.where for problem in refusal.value.problems] == ["to"]


@pytest.mark.parametrize("annotation", [dict, Any, Welcome, Point, Typed, dict[str, int]])
def test_only_a_handler_that_takes_a_list_accepts_list_items(annotation):
    with pytest.raises(InvalidArgument, match=r'^dedup_mode "append" needs a handler .* as list\[…\]$'):
        PayloadModel.of("a:b", annotation).prepare({"x": 1}, is_list_item=True)


def test_a_handler_that_takes_a_list_accepts_only_list_items():
    with pytest.raises(PayloadInvalid, match='schedule the action with dedup_mode="append"'):
        PayloadModel.of("a:b", list[Welcome]).prepare({"to": "ann"})


def test_a_list_with_too_few_items_is_reported_as_an_invalid_payload_not_as_a_wrong_mode():
    with pytest.raises(PayloadInvalid, match="at least 2 items"):
        PayloadModel.of("a:b", Annotated[list[Welcome], Field(min_length=2)]).prepare({"to": "a"}, is_list_item=True)


def test_the_schema_names_the_fields():
    schema = PayloadModel.of("a:b", Typed).json_schema()

    assert schema["required"] == ["x"]
    assert set(schema["properties"]) == {"x", "inner"}


def test_a_model_that_json_schema_cannot_express_has_a_schema_that_accepts_everything():
    class Odd(BaseModel):
        x: Annotated[Any, Field(default=None)]
        y: type[int] | None = None
        z: typing.Callable[[], None] | None = None

    assert "properties" not in PayloadModel.of("a:b", Odd).json_schema()


def test_an_undefined_annotation_is_reported_when_the_model_is_built():
    class Waiting(BaseModel):
        x: NeverDefined  # noqa: F821 - undefined on purpose

    with pytest.raises(PydanticUndefinedAnnotation, match="NeverDefined"):
        PayloadModel.of("a:b", Waiting)
