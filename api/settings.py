"""Settings of the service: flags of `calcgpt serve`, or the environment, as CALCGPT_PORT."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """What can be set. A flag wins over the environment, which wins over the default."""

    model_config = SettingsConfigDict(env_prefix="CALCGPT_")

    host: str = "127.0.0.1"
    port: int = Field(8000, ge=0, le=65535, description="0 takes any free port")
    checkpoint: str = Field("best", description="a folder, a name under checkpoints/, or `best`")
