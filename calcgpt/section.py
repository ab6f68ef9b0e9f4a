"""Sections: the tables of configs, with errors of one line."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from calcgpt.base.errors import ConfigError, UserError, did_you_mean, shown, unknown_name
from calcgpt.variants import KINDS, added

S = TypeVar("S", bound=BaseModel)
# Pydantic's errors about a number or a boolean: the message says which value was given.
_OF_VALUES = {
    "bool_type",
    "finite_number",
    "float_type",
    "greater_than",
    "greater_than_equal",
    "int_type",
    "less_than",
    "less_than_equal",
}


class Section(BaseModel):
    """A table of a config. It accepts no unknown fields, converts no values and is immutable."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, defer_build=True
    )

    if not TYPE_CHECKING:  # editors and mypy know the fields

        def __init__(self, **fields):
            """Raises ConfigError, one line, for an unknown field and a wrong value."""
            try:
                super().__init__(**fields)
            except ValidationError as error:
                name = type(self).__name__
                raise ConfigError(f"{name}: {reason_of(type(self), error)}") from None

        # Sections of a table that is read are made without it.
        __init__.__pydantic_base_init__ = True


def build(
    section: type[S],
    table: Any,
    source: str,
    kind: str = "a table",
    wrong: type[UserError] = ConfigError,
) -> S:
    """Returns a `section` built from a table. Raises `wrong`, which starts with `source` and calls
    the table `kind`."""
    try:
        return section.model_validate(table)
    except UserError as error:  # raised by a validator, for example of a space of a sweep
        raise wrong(f"{source}: {error}") from None
    except ValidationError as error:
        raise wrong(f"{source}: {reason_of(section, error, kind)}") from None


def reason_of(section: type[BaseModel], invalid: ValidationError, kind: str = "a table") -> str:
    """Returns one thing that is wrong with a table, in one line."""
    # An unknown field comes first: if it is misspelt, another one is missing.
    errors = invalid.errors(include_url=False)
    error = min(errors, key=lambda error: error["type"] != "extra_forbidden")
    field = ".".join(map(str, error["loc"]))
    if error["type"] == "literal_error":
        return _unknown_name(error)
    if error["type"] == "extra_forbidden":
        inner = _section_at(section, error["loc"][:-1])
        valid, hint = ", ".join(inner.model_fields), _field_hint(inner, str(error["loc"][-1]))
        return f"unknown field {field!r}; valid fields: {valid}{hint}"
    reason = error["msg"].removeprefix("Value error, ")
    if error["type"] in ("model_type", "dict_type"):
        reason = f"must be {kind}"
    elif error["type"] in _OF_VALUES:
        reason = reason.replace("a valid boolean", "true or false")
        reason += f", not {'null' if error['input'] is None else shown(error['input'])}"
    return f"{field}: {reason}" if field else reason


def _field_hint(section: type[BaseModel], name: str) -> str:
    """Returns a hint with the field that the user may mean: a field of the same name in an inner
    section, or one of a similar name in the section itself."""
    for outer, field in section.model_fields.items():
        for inner in _sections_in(field.annotation):
            if name in inner.model_fields:
                return f"; did you mean '{outer}.{name}'?"
    return did_you_mean(name, section.model_fields)


def _section_at(section: type[BaseModel], path: tuple[int | str, ...]) -> type[BaseModel]:
    """Returns the section that `path` leads to from `section`."""
    for key in path:
        field = section.model_fields.get(str(key))
        if field is not None:  # else `key` is a key of a dict of sections
            section = next(_sections_in(field.annotation))
    return section


def _sections_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yields the sections in an annotation such as `Section | None` or `dict[str, Section]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _sections_in(argument)


def _unknown_name(error: ErrorDetails) -> str:
    """Returns what is wrong with a name that a `Literal` does not list."""
    path = [part for part in error["loc"] if part != "[key]"]
    field = str(path[-2] if "[key]" in error["loc"] else path[-1])
    kind = "operation" if field == "operations" else KINDS.get(field, field)
    valid = [*re.findall(r"'([^']*)'", error["ctx"]["expected"]), *added(field)]
    return unknown_name(kind, error["input"], valid)
