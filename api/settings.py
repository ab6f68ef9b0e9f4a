"""Settings of the service: flags of `calcgpt serve`, or the environment, as CALCGPT_PORT."""

from __future__ import annotations

from typing import Any

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from calcgpt.errors import ConfigError


class Settings(BaseSettings):
    """What can be set. A flag wins over the environment, which wins over the default."""

    model_config = SettingsConfigDict(env_prefix="CALCGPT_")

    host: str = "127.0.0.1"
    port: int = Field(8000, ge=0, le=65535, description="0 takes any free port")
    checkpoint: str = Field("best", description="a folder, a name under checkpoints/, or `best`")


def load_settings(flags: dict[str, Any]) -> Settings:
    """The settings; raises ConfigError, one line, for a value that is not valid."""
    try:
        return Settings(**flags)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = f"CALCGPT_{first['loc'][0]}".upper()
        raise ConfigError(f"{name}: {first['msg']}") from None
