"""`calcgpt serve`: one process or several, which run the application with uvicorn."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import tempfile
from itertools import chain
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.supervisors import Multiprocess

from api.app import create_app, prepare
from api.protocol import BoundedProtocol
from api.service import LoadedModel, loader
from api.settings import Settings, load_settings
from calcgpt.errors import UserError
from datagen.workers import end_with_parent

log = logging.getLogger(__name__)


def run(settings: Settings) -> None:
    """Serves until SIGINT or SIGTERM, then finishes the accepted requests.

    Raises UserError if the checkpoint does not load or the address is not available.
    """
    prepare(settings)
    listener = listen(settings.host, settings.port)
    if settings.workers == 1:
        _serve(settings, listener)
    else:
        _supervise(settings, listener)


def worker() -> FastAPI:
    """Returns the application of a worker process, with settings from CALCGPT_... variables.

    The default model is loaded first, so that other workers answer until this one is ready.
    """
    settings = load_settings({})
    prepare(settings)
    end_with_parent()
    models = loader(settings)()
    try:
        first = next(models)
    except UserError as error:
        log.error("worker %d ends: %s", os.getpid(), error)
        sys.exit(2)
    log.info("worker %d is ready: %s by %s", os.getpid(), first.name, first.engine)
    return create_app(settings, lambda: chain([first], models))


def _serve(settings: Settings, listener: socket.socket) -> None:
    failures: list[Exception] = []

    def on_ready(model: LoadedModel) -> None:
        url = url_of(listener)
        log.info(
            "%s answers on %s, documented at %s/docs; Ctrl+C ends it",
            *(model.name, url, url),
            extra={"engine": model.engine},
        )

    def on_failure(error: Exception) -> None:
        failures.append(error)
        server.should_exit = True

    app = create_app(settings, loader(settings), on_ready, on_failure)
    server = uvicorn.Server(uvicorn.Config(app, **_options(settings)))
    # For signals before uvicorn installs its handlers. After it ends, uvicorn restores these
    # handlers and raises the signal again.
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, lambda *_: setattr(server, "should_exit", True))
    server.run(sockets=[listener])
    if failures:
        raise failures[0]


def _supervise(settings: Settings, listener: socket.socket) -> None:
    """Runs worker processes that accept from one socket, and replaces those that die."""
    # Errors are found here, because workers that end at once would be replaced forever.
    create_app(settings, loader(settings))
    next(loader(settings)())
    with tempfile.TemporaryDirectory(prefix="calcgpt-metrics-") as folder:
        os.environ.update(settings.environment(), PROMETHEUS_MULTIPROC_DIR=folder)
        log.info("%d workers start on %s; Ctrl+C ends them", settings.workers, url_of(listener))
        config = uvicorn.Config(
            "api.server:worker", factory=True, workers=settings.workers, **_options(settings)
        )
        # Not with uvicorn's `fd`: it would make a Unix socket of it, so that asyncio knew no client
        # addresses and did not set TCP_NODELAY.
        Supervisor(config, sockets=[listener]).run()


class Supervisor(Multiprocess):
    """Closes its listening socket before it ends the workers.

    While that socket is open, the system accepts connections that no worker will serve.
    """

    def terminate_all(self) -> None:
        for listener in self.sockets:
            listener.close()
        super().terminate_all()


def _options(settings: Settings) -> dict[str, Any]:
    return {
        "log_config": None,  # `prepare` configures the logs
        "access_log": False,  # RequestLog writes one
        "server_header": False,
        "http": BoundedProtocol,
        "ws": "none",
        "timeout_graceful_shutdown": max(1, round(settings.drain)),
        "forwarded_allow_ips": settings.trusted_proxies,
    }


def url_of(listener: socket.socket) -> str:
    """Returns the URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def listen(host: str, port: int) -> socket.socket:
    """Returns a listening socket. Raises UserError if the address is not available."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=2048)
    except socket.gaierror as error:
        reason = error.strerror
    except OSError as error:
        reason = os.strerror(error.errno or 0)
    except UnicodeError:
        reason = "not a host name"
    raise UserError(f"cannot listen on {host}:{port}: {reason}")
