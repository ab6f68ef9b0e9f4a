"""Settings of the service, as flags of `calcgpt serve` or environment variables (CALCGPT_PORT)."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args, get_origin

import click
from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from calcgpt.errors import ConfigError

PREFIX = "CALCGPT_"


class Settings(BaseSettings):
    """All settings. A flag takes precedence over the environment, and that over the default.

    The descriptions are the help texts of `calcgpt serve --help`.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, hide_input_in_errors=True)

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on; 0: any free one.")
    workers: int = Field(1, ge=1, le=256, description="Processes; each loads its own models.")
    checkpoint: str = Field("best", description="The default model: a folder, a name, or `best`.")
    others: bool = Field(True, description="Also load the other checkpoints.")
    engine: str = Field(
        "auto",
        description="What runs the models: native, onnxruntime, torch, or auto (the fastest).",
    )
    threads: int = Field(1, ge=1, description="CPU threads for the models, in each process.")

    max_batch: int = Field(32, ge=1, description="Most problems in one forward pass.")
    max_groups: int = Field(2, ge=1, description="Most batches that are decoded in turns.")
    batch_wait: float = Field(
        0.002,
        ge=0,
        le=1,
        description="Seconds that an idle model waits for more problems.",
    )
    max_pending: int = Field(
        512, ge=1, description="Most operations in progress; more are refused with 503."
    )
    max_items: int = Field(100, ge=1, description="Most expressions in one batch request.")
    deadline: float = Field(30.0, gt=0, description="Seconds after which a request fails with 504.")
    drain: float = Field(30.0, ge=0, description="Seconds to finish requests at shutdown.")

    max_body: int = Field(65_536, ge=1, description="Most bytes in the body of a request.")
    api_keys: Annotated[tuple[SecretStr, ...], NoDecode] = Field(
        (), description="API keys, separated by commas. If set, /v1/ requires one of them."
    )
    rate_limit: str | None = Field(
        None,
        description="Operations for each client, such as 600/minute; semicolons separate several.",
    )
    rate_storage: SecretStr = Field(  # may contain a password
        SecretStr("async+memory://"),
        description="Where rates are counted: in each process, or in async+redis://HOST.",
    )
    cors_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Origins, separated by commas, whose pages may call the API."
    )
    trusted_proxies: str = Field(
        "127.0.0.1", description="Proxies whose X-Forwarded-For is trusted; * trusts everyone."
    )

    log_format: Literal["auto", "json", "text"] = Field(
        "auto", description="Format of the logs. auto: text on a terminal, else JSON."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Lowest severity that is logged."
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
            raise ValueError("max_items must not exceed max_pending: a batch must fit")
        return self

    def masked(self) -> dict[str, Any]:
        """Returns all values as JSON, with secrets masked."""
        return self.model_dump(mode="json")

    def environment(self) -> dict[str, str]:
        """Returns environment variables with these settings, for worker processes. Not masked."""
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
    """Returns the settings. Raises ConfigError if a value is not valid."""
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
    """Returns a command-line option for each setting. `Settings` validates their values."""
    return [_option(name, field) for name, field in Settings.model_fields.items()]


def _option(name: str, field: FieldInfo) -> click.Option:
    flag = f"--{name.replace('_', '-')}"
    default = field.get_default()
    suffix = "" if default in (None, ()) else f"  [default: {_text(default)}]"
    arguments: dict[str, Any] = {"help": f"{field.description}{suffix}", "default": None}
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
