"""The service on a Ray cluster: replicas on many machines, behind the proxies of Ray Serve.

    serve run api.ray_app:app checkpoint=calculator workers=4

Arguments are settings by name. Other settings are read from CALCGPT_... on the machine that builds
the application. `workers` is the number of replicas. The settings of addresses, connections and
trusted proxies have no effect, because Ray Serve's proxies listen. Every machine needs this
package, and the checkpoints under the same path.
"""

import asyncio
import os
from typing import Any

from fastapi import FastAPI

from api.app import create_app, prepare
from api.service import LoadedModel, loader
from api.settings import Settings, load_settings
from calcgpt.base.extras import require

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray sends statistics unless it is set

require("a service on Ray", "ray")
from ray import serve  # noqa: E402


def app(arguments: dict[str, Any]) -> serve.Application:
    """Returns the application for `serve run` and `serve deploy`.

    Raises ConfigError if a setting is not valid.
    """
    settings = load_settings(arguments)

    def build() -> FastAPI:  # called in each replica, because threads and locks cannot be pickled
        prepare(settings)
        return replica_app(settings)

    deployment = serve.deployment(
        name="calcgpt",
        num_replicas=settings.workers,
        ray_actor_options={"num_cpus": settings.threads},
        max_ongoing_requests=settings.max_pending,  # more than that wait at the proxies
        max_queued_requests=settings.max_pending,  # the proxies refuse the rest with 503
        graceful_shutdown_timeout_s=settings.drain,
    )
    return deployment(serve.ingress(build)(Replica)).bind()


def replica_app(settings: Settings) -> FastAPI:
    """Returns the application. Call it in a running event loop.

    Its `state.loaded` is a future of the default model.
    """
    loaded: asyncio.Future[LoadedModel] = asyncio.get_running_loop().create_future()
    app = create_app(settings, loader(settings), loaded.set_result, loaded.set_exception)
    app.state.loaded = loaded
    return app


class Replica:
    """The class that Ray Serve runs; the decorator `ingress` adds the application."""

    app: FastAPI

    async def check_health(self) -> None:
        """Returns once the default model is loaded, so that new replicas get no requests before.

        Raises the error if the model cannot be loaded.
        """
        await asyncio.shield(self.app.state.loaded)
