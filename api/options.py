"""The settings as options of the command line."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

import click
from pydantic.fields import FieldInfo

from api.settings import Settings


def options() -> list[click.Option]:
    """An option for each setting: its name, its type, its description and its default. Whatever is
    given is checked by `Settings`; what is not given is None."""
    return [_option(name, field) for name, field in Settings.model_fields.items()]


def _option(name: str, field: FieldInfo) -> click.Option:
    flag = f"--{name.replace('_', '-')}"
    default = field.get_default()
    shown = "" if default in (None, ()) else f"  [default: {_text(default)}]"
    arguments: dict[str, Any] = {"help": f"{field.description}{shown}", "default": None}
    if field.annotation is bool:
        return click.Option([f"{flag}/--no-{flag[2:]}"], **arguments)
    if get_origin(field.annotation) is Literal:
        arguments["type"] = click.Choice(get_args(field.annotation))
    elif field.annotation in (int, float):
        arguments["type"] = field.annotation
    return click.Option([flag], **arguments)


def _text(default: Any) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    return default.get_secret_value() if hasattr(default, "get_secret_value") else str(default)
