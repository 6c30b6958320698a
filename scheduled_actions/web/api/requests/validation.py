"""A request's fields against a model: all that is wrong with them, each by its path."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from scheduled_actions.core.errors import FieldProblem
from scheduled_actions.web.api.requests.refusals import FieldsInvalid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic_core import ErrorDetails
    from werkzeug.datastructures import MultiDict

    from scheduled_actions.web.api.models import Given

Model = TypeVar("Model", bound="Given")

#: More problems than these help nobody.
_PROBLEMS_MOST = 100
_NAME_MOST = 60
_KNOWN_MOST = 12


def checked(model: type[Model], value: Any, *, whole: str) -> Model:  # noqa: ANN401 - it is what is judged
    """Return the model of a value.

    Args:
        model: What it must be.
        value: As JSON has it.
        whole: What the value as a whole is called in errors.

    Raises:
        FieldsInvalid: It is not; every field is listed.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=True, include_input=True)
        problems = [_problem(one, model, value, whole) for one in found[:_PROBLEMS_MOST]]
        if len(found) > _PROBLEMS_MOST:
            problems.append(FieldProblem("", f"and {len(found) - _PROBLEMS_MOST:,} more"))
        # Not chained: a validator's own error may repeat the values.
        raise FieldsInvalid(problems) from None


def checked_query(model: type[Model], given: MultiDict[str, str]) -> Model:
    """Return the model of what stands behind the question mark.

    Raises:
        FieldsInvalid: A name is unknown or there twice, or a value is not what it must be.
    """
    twice = [name for name, values in given.lists() if len(values) > 1]
    if twice:
        raise FieldsInvalid([FieldProblem(_shown(name), "is given more than once") for name in twice])
    return checked(model, given.to_dict(), whole=_QUERY)


#: What stands there is in addresses and logs anyhow.
_QUERY = "query"


def _problem(error: ErrorDetails, model: type[Given], value: Any, whole: str) -> FieldProblem:  # noqa: ANN401 - as above
    path = [_shown(step) for step in _steps(error, value)]
    context: Mapping[str, Any] = error.get("ctx", {})
    # Our own refusals may name the field more closely, or one inside of what is refused.
    if "name" in context:
        path = [*path[:-1], str(context["name"])]
    if context.get("inside"):
        path = [*path, str(context["inside"])]
    message = _message(error, model)
    if message.startswith("should ") and (whole == _QUERY or error["type"] in _HARMLESS):
        message += f", not {_value(error['input'])}"
    return FieldProblem(".".join(path) or whole, message)


def _steps(error: ErrorDetails, value: Any) -> Iterator[int | str]:  # noqa: ANN401 - as above
    """Yield the steps to what is wrong, as it was sent; pydantic's own, which kind of several it tried, are none."""
    for position, step in enumerate(error["loc"], start=1):
        is_last = position == len(error["loc"])
        is_place = isinstance(value, list) and isinstance(step, int) and step < len(value)
        if is_place or (isinstance(value, dict) and step in value):
            value = value[step]
        elif not (is_last and error["type"] == "missing"):
            continue
        yield step


def _message(error: ErrorDetails, model: type[Given]) -> str:
    match error["type"]:
        case "extra_forbidden":
            return "is not known here" + (_known(str(error["loc"][0]), model) if len(error["loc"]) == 1 else "")
        case "missing":
            return "is required"
        case "dict_type" | "model_type" | "model_attributes_type":
            return "should be a JSON object"
        case "uuid_parsing" | "uuid_type" if error["loc"][-1] == "cursor":
            return "should be next_cursor of the page before"
        case "uuid_parsing":
            return "should be an id, such as 0197a000-0000-7000-8000-000000000001"
        case _:
            return _PREFIXES.sub("", error["msg"]).replace(" after validation", "")


#: How pydantic begins its sentences, and ours where it hands them on.
_PREFIXES = re.compile(r"^(?:Value error, |(?:Input|String|List|Dictionary|Tuple|Set|Data) (?=should ))")
#: Refusals of values that are short, and no payload and no secret: the values are repeated.
_HARMLESS = frozenset(
    {"literal_error", "enum", "greater_than", "greater_than_equal", "less_than", "less_than_equal", "finite_number"}
)


def _known(name: str, model: type[Given]) -> str:
    """Return what a name that is not known may have been meant to be."""
    known = [field.alias or own for own, field in model.model_fields.items()]
    near = difflib.get_close_matches(name[:_NAME_MOST], known, n=1)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; known are {', '.join(known)}" if 0 < len(known) <= _KNOWN_MOST else ""


def _value(value: object) -> str:
    text = str(value) if isinstance(value, int | float) else repr(value)
    return text if len(text) <= _NAME_MOST else f"{text[: _NAME_MOST - 1]}…"


def _shown(step: object) -> str:
    text = str(step)
    return text if text.isprintable() and len(text) <= _NAME_MOST else ascii(text[:_NAME_MOST])
