"""The service on a Ray cluster: replicas on many machines, behind the proxies of Ray Serve.

    serve run api.ray_app:app checkpoint=steps workers=4

Arguments are settings by name; what is not given is read from CALCGPT_... where the application is
built. `workers` is the number of replicas; the address, and whose X-Forwarded-For is believed, are
the proxies' affair. Every machine needs this package, and the checkpoints under the same path.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from fastapi import FastAPI

from api.app import create_app
from api.models import LoadedModel
from api.server import ServeError, loader, prepare
from api.settings import Settings, load_settings

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # before a cluster starts, or they are sent

try:
    from ray import serve
except ImportError:
    raise ServeError("Ray is not installed; it comes with the extra: calcgpt[ray]") from None


def app(arguments: dict[str, Any]) -> serve.Application:
    """What `serve run` and `serve deploy` take. Raises ConfigError for settings that are not
    valid."""
    settings = load_settings(arguments)

    def build() -> FastAPI:  # called in each replica: threads and locks do not travel
        prepare(settings)
        return replica_app(settings)

    deployment = serve.deployment(
        name="calcgpt",
        num_replicas=settings.workers,
        ray_actor_options={"num_cpus": settings.threads},
        max_ongoing_requests=settings.max_pending,  # what is more waits at the proxies
        max_queued_requests=settings.max_pending,  # or is refused there with 503
        graceful_shutdown_timeout_s=settings.drain,
    )
    return deployment(serve.ingress(build)(Replica)).bind()


def replica_app(settings: Settings) -> FastAPI:
    """The application; its `state.loaded` is a future of the default model. To be called in a
    running event loop."""
    loaded: asyncio.Future[LoadedModel] = asyncio.get_running_loop().create_future()
    app = create_app(settings, loader(settings), loaded.set_result, loaded.set_exception)
    app.state.loaded = loaded
    return app


class Replica:
    """What a replica is to Ray Serve; the decorator `ingress` adds the application."""

    app: FastAPI

    async def check_health(self) -> None:
        """Returns when the default model is loaded; raises what kept it from that. A new replica
        gets no requests before."""
        await asyncio.shield(self.app.state.loaded)
