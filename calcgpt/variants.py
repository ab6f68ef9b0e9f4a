"""The tables of variants, which plug-ins extend (`calcgpt.plugins`), as configs see them."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    PlainSerializer,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

T = TypeVar("T")
# Field of a config -> its table, and what the package has in it.
TABLES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
# Field -> name of a variant that a plug-in has added -> the name of the plug-in's file.
ADDED: dict[str, dict[str, str]] = {}


def register(field: str, table: dict[str, Any]) -> None:
    """Makes a field's table known, so that plug-ins may add to it."""
    TABLES[field] = (table, dict(table))


def _listed_or_added(
    name: object, listed: ValidatorFunctionWrapHandler, info: ValidationInfo
) -> object:
    added = ADDED.get(info.field_name or "", {})
    return name if isinstance(name, str) and name in added else listed(name)


# A name that a `Literal` lists or that a plug-in has added.
Variant = Annotated[T, WrapValidator(_listed_or_added), PlainSerializer(str, return_type=str)]


def plugins_of(*sections: BaseModel) -> list[str]:
    """Returns the names of the plug-ins' files whose variants the sections of a config name."""
    fields = ((s, field) for s in sections for field in ADDED.keys() & type(s).model_fields.keys())
    files = {ADDED[field].get(getattr(section, field)) for section, field in fields}
    return sorted(file for file in files if file)
