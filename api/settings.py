"""Settings of the service: flags of `calcgpt serve`, or the environment, as CALCGPT_PORT.

The settings as options of the command line.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args, get_origin

import click
from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from calcgpt.errors import ConfigError

PREFIX = "CALCGPT_"


class Settings(BaseSettings):
    """What can be set. A flag wins over the environment, which wins over the default. The
    descriptions are what `calcgpt serve --help` says."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, hide_input_in_errors=True)

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="0 takes a free one.")
    workers: int = Field(1, ge=1, le=256, description="Processes; each has its own models.")
    checkpoint: str = Field("best", description="The default model: a folder, a name, or `best`.")
    others: bool = Field(True, description="Offer the other checkpoints beside it, too.")
    engine: str = Field(
        "auto", description="What runs the models: torch, onnxruntime, or auto, the fastest."
    )
    threads: int = Field(1, ge=1, description="CPU threads of the models, for each worker.")

    max_batch: int = Field(32, ge=1, description="Problems that share a forward pass.")
    max_groups: int = Field(2, ge=1, description="Batches that are decoded by turns.")
    batch_wait: float = Field(
        0.002, ge=0, le=1, description="Seconds that an idle model waits for company."
    )
    max_pending: int = Field(
        512, ge=1, description="Expressions admitted at a time; more are refused with 503."
    )
    max_items: int = Field(100, ge=1, description="Expressions in one batch request.")
    deadline: float = Field(30.0, gt=0, description="Seconds that a request may take.")
    drain: float = Field(30.0, ge=0, description="Seconds to finish requests when told to end.")

    max_body: int = Field(65_536, ge=1, description="Bytes of a request's body.")
    api_keys: Annotated[tuple[SecretStr, ...], NoDecode] = Field(
        (), description="Keys, separated by commas, of which /v1/ then asks for one."
    )
    rate_limit: str | None = Field(
        None, description="For each client, as 600/minute; several are separated by semicolons."
    )
    rate_storage: SecretStr = Field(  # it may hold a password
        SecretStr("async+memory://"),
        description="Where the rates are counted: in each worker, or as async+redis://HOST.",
    )
    cors_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Origins, separated by commas, whose pages may call; none by default."
    )
    trusted_proxies: str = Field(
        "127.0.0.1", description="Addresses whose X-Forwarded-For is believed, or *."
    )

    log_format: Literal["auto", "json", "text"] = Field(
        "auto", description="auto: text on a terminal, else JSON."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least severe records that are logged."
    )

    @field_validator("api_keys", "cors_origins", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return [part.strip() for part in value.split(",") if part.strip()]

    @model_validator(mode="after")
    def _check_sizes(self) -> Settings:
        if self.max_items > self.max_pending:
            raise ValueError("max_items must not exceed max_pending: such a batch never gets in")
        return self

    def shown(self) -> dict[str, Any]:
        """All values as JSON, secrets masked."""
        return self.model_dump(mode="json")

    def environment(self) -> dict[str, str]:
        """The variables that mean these settings, secrets included: for worker processes."""
        values = self.model_dump()
        values["api_keys"] = ",".join(key.get_secret_value() for key in self.api_keys)
        values["rate_storage"] = self.rate_storage.get_secret_value()
        values["cors_origins"] = ",".join(self.cors_origins)
        return {
            f"{PREFIX}{name}".upper(): str(value)
            for name, value in values.items()
            if value is not None
        }


def load_settings(flags: dict[str, Any]) -> Settings:
    """The settings; raises ConfigError, one line, for a value that is not valid."""
    try:
        return Settings(**flags)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        reason = first["msg"].removeprefix("Value error, ")
        if first["loc"]:
            name = str(first["loc"][0])
            flag, variable = f"--{name.replace('_', '-')}", f"{PREFIX}{name}".upper()
            reason = f"{flag if name in flags else variable}: {reason}"
        raise ConfigError(reason) from None


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
