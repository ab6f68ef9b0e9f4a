"""Settings of the service, as flags of `calcgpt serve` or environment variables (CALCGPT_PORT)."""

import os
import re
from collections.abc import Callable, Mapping
from ipaddress import ip_address, ip_network
from typing import Annotated, Any, Literal, Self, get_args, get_origin

import click
from pydantic import AnyHttpUrl, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from calcgpt.base.errors import ConfigError, unknown_name

PREFIX = "CALCGPT_"
OTHERS = ("CALCGPT_CACHE", "CALCGPT_COMPLETE")  # of the engine `cases`, of `calcgpt completion`


class Settings(BaseSettings):
    """All settings. A flag takes precedence over the environment, and that over the default.

    The descriptions are the help texts of `calcgpt serve --help`.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, hide_input_in_errors=True, allow_inf_nan=False
    )

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on; 0: any free one.")
    health_port: int | None = Field(
        None,
        ge=0,
        le=65535,
        description="Also answer health checks and metrics on this port, in a separate process.",
    )
    workers: int = Field(1, ge=1, le=256, description="Processes; each loads its own models.")
    checkpoint: str = Field("best", description="The default model: a folder, a name, or `best`.")
    others: bool = Field(True, description="Also load the other checkpoints.")
    engine: str = Field(
        "auto", description="What runs the models: cases, torch, or auto (cases if it can)."
    )
    plugin: str = Field("", description="A Python file that adds variants of models.")

    max_connections: int = Field(
        10_000,
        ge=1,
        description="Maximum number of connections at once; more are refused with 503.",
    )
    max_pending: int = Field(
        1_024,
        ge=1,
        description="Maximum number of operations of a client in progress; all together a quarter "
        "more. More are refused with 503.",
    )
    deadline: float = Field(30.0, gt=0, description="Seconds after which a request fails with 504.")
    drain: float = Field(30.0, ge=0, description="Seconds to finish requests at shutdown.")

    max_body: int = Field(65_536, ge=1, description="Maximum size of a request's body in bytes.")
    api_keys: Annotated[tuple[SecretStr, ...], NoDecode] = Field(
        (), description="API keys, separated by commas. If set, /v1/ requires one of them."
    )
    rate_limit: str | None = Field(
        None,
        description="Operations for each client in each process, such as 600/minute; semicolons "
        "separate several.",
    )
    hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Names under which the service is reached, separated by commas; a request for "
        "another Host is refused with 421. local: addresses and localhost; *: any. Default: local "
        "if --host is an address of this machine alone, else *.",
    )
    cors_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Origins, separated by commas, whose pages may call the API."
    )
    page_address: str | None = Field(
        None, description="The URL of the page: link previews then show a picture."
    )
    trusted_proxies: str = Field(
        "127.0.0.1",
        description="Addresses or networks of proxies, separated by commas, whose X-Forwarded-For "
        "is trusted.",
    )

    log_format: Literal["auto", "json", "text"] = Field(
        "auto", description="Format of the logs. auto: text on a terminal, else JSON."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Lowest severity that is logged."
    )

    @field_validator("engine")
    @classmethod
    def _check_engine(cls, engine: str) -> str:
        from calcgpt.inference.engines import engine_names  # takes a while to import

        if engine not in (names := engine_names()):
            raise ValueError(unknown_name("engine", engine, names))
        return engine

    @field_validator("rate_limit")
    @classmethod
    def _check_rate(cls, rate: str | None) -> str | None:
        if rate is not None:
            from api.access import Limiter  # takes a while to import

            try:
                Limiter(rate)
            except ConfigError as error:
                raise ValueError(str(error)) from None
        return rate

    @field_validator("api_keys", "cors_origins", "hosts", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        parts = [part.strip() for part in value.split(",") if part.strip()]
        if not parts:  # else no key would be set, and everybody could come in
            raise ValueError("contains nothing; omit it to set none")
        return parts

    @field_validator("cors_origins")
    @classmethod
    def _as_browsers_send(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(origin if origin == "*" else _origin(origin) for origin in origins)

    @field_validator("page_address")
    @classmethod
    def _check_page_address(cls, address: str | None) -> str | None:
        from calcgpt.inference.browser import page_address  # takes a while to import

        try:
            return None if address is None else page_address(address)
        except ConfigError as error:
            raise ValueError(str(error)) from None

    @field_validator("trusted_proxies")
    @classmethod
    def _check_proxies(cls, proxies: str) -> str:
        for proxy in filter(None, map(str.strip, proxies.split(","))):
            if proxy == "*":
                raise ValueError("* would let each client choose its address: name the networks")
            ip_network(proxy)  # raises ValueError
        return proxies

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.health_port and self.health_port == self.port:
            raise ValueError("--health-port must differ from --port")
        return self

    def with_hosts(self) -> Self:
        """Returns the settings with the hosts that are served if none are set. If only this machine
        can connect, these are its own: a page that a browser loads could have any other."""
        address = "127.0.0.1" if self.host == "localhost" else self.host
        try:
            is_local = ip_address(address).is_loopback
        except ValueError:
            is_local = False  # a name, which may be one of the network
        hosts = self.hosts or ("local" if is_local else "*",)
        return self.model_copy(update={"hosts": hosts})


def _origin(text: str) -> str:
    """Returns an origin as browsers send it: in lower case, without the usual port.

    Raises ValueError if the text is none.
    """
    try:
        origin = str(AnyHttpUrl(text)).removesuffix("/")
    except ValidationError:
        origin = ""
    if not re.fullmatch(r"https?://[^/?#@]+", origin):
        raise ValueError(f"{text!r:.100} is not an origin, such as https://example.org")
    return origin


def load_settings(flags: dict[str, Any]) -> Settings:
    """Returns the settings.

    Raises ConfigError if a value is not valid, or a CALCGPT_... variable is none of the settings:
    it may be one that would keep others out.
    """
    variables = [*(f"{PREFIX}{name}".upper() for name in Settings.model_fields), *OTHERS]
    for name in map(str.upper, os.environ):
        if name.startswith(PREFIX) and name not in variables:
            raise ConfigError(unknown_name("variable", name, variables))
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


def options(complete: Mapping[str, Callable[..., Any]]) -> list[click.Option]:
    """Returns a command-line option for each setting. `Settings` validates the values.

    `complete` maps the names of settings to functions that complete their values in a shell.
    """
    fields = Settings.model_fields.items()
    return [_option(name, field, shell_complete=complete.get(name)) for name, field in fields]


def _option(name: str, field: FieldInfo, **arguments: Any) -> click.Option:
    flag = f"--{name.replace('_', '-')}"
    default = field.get_default()
    suffix = "" if default in (None, ()) else f"  [default: {_text(default)}]"
    arguments |= {"help": f"{field.description}{suffix}", "default": None}
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
    return str(default)
