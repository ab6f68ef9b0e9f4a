"""The process, or several: a socket, uvicorn, the application."""

from __future__ import annotations

import logging
import multiprocessing
import os
import resource
import signal
import socket
import sys
import tempfile
import threading
from contextlib import suppress
from itertools import chain
from typing import Any

import torch
import uvicorn
from fastapi import FastAPI
from uvicorn.supervisors import Multiprocess

from api import telemetry
from api.app import create_app
from api.models import LoadedModel, Loader, load_models
from api.protocol import BoundedProtocol
from api.settings import Settings, load_settings
from calcgpt.errors import UserError

log = logging.getLogger(__name__)

# Python's default lets the model's thread keep the event loop waiting for 5 ms each time. With 1 ms
# the service answers a tenth more, and the slowest answers come sooner (docs/LOG.md).
SWITCH_SECONDS = 0.001


class ServeError(UserError):
    """The service cannot start; the message says why."""


def run(settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM, then answer what was accepted. Raises UserError where the
    checkpoint does not load or the address cannot be had."""
    prepare(settings)
    listener = listen(settings.host, settings.port)
    if settings.workers == 1:
        _serve(settings, listener)
    else:
        _supervise(settings, listener)


def worker() -> FastAPI:
    """The application as CALCGPT_... say: what a worker process runs. Its default model is loaded
    before it accepts anything: until then the other workers answer."""
    settings = load_settings({})
    prepare(settings)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    models = loader(settings)()
    try:
        first = next(models)
    except UserError as error:
        log.error("worker %d ends: %s", os.getpid(), error)
        sys.exit(2)
    log.info("worker %d is ready: %s by %s", os.getpid(), first.name, first.engine)
    return create_app(settings, lambda: chain([first], models))


def loader(settings: Settings) -> Loader:
    """What loads the models that the settings name."""
    return lambda: load_models(
        settings.checkpoint, settings.others, settings.engine, settings.threads
    )


def prepare(settings: Settings) -> None:
    """What a process does before it serves: its logs, its threads, as many connections as the
    system lets it have."""
    telemetry.configure(settings.log_format, settings.log_level)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)  # that it runs, we say ourselves
    torch.set_num_threads(settings.threads)
    sys.setswitchinterval(SWITCH_SECONDS)
    with suppress(ValueError, OSError):  # where even what it may have is too much for the system
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _serve(settings: Settings, listener: socket.socket) -> None:
    failures: list[Exception] = []

    def on_ready(model: LoadedModel) -> None:
        url = url_of(listener)
        log.info(
            "%s answers on %s, documented at %s/docs; Ctrl+C ends it",
            model.name, url, url, extra={"engine": model.engine},
        )  # fmt: skip

    def on_failure(error: Exception) -> None:
        failures.append(error)
        server.should_exit = True

    app = create_app(settings, loader(settings), on_ready, on_failure)
    server = uvicorn.Server(uvicorn.Config(app, **_options(settings)))
    # For a signal that comes before uvicorn listens for it; and uvicorn raises the one that ended
    # it once more, for whoever was there before.
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, lambda *_: setattr(server, "should_exit", True))
    server.run(sockets=[listener])
    if failures:
        raise failures[0]


def _supervise(settings: Settings, listener: socket.socket) -> None:
    """Worker processes that accept from one socket; one that dies is replaced."""
    # What cannot work is found out here: workers that end at once would be replaced for ever.
    create_app(settings, loader(settings))
    next(loader(settings)())
    with tempfile.TemporaryDirectory(prefix="calcgpt-metrics-") as folder:
        os.environ.update(settings.environment(), PROMETHEUS_MULTIPROC_DIR=folder)
        log.info("%d workers start on %s; Ctrl+C ends them", settings.workers, url_of(listener))
        config = uvicorn.Config(
            "api.server:worker", factory=True, workers=settings.workers, **_options(settings)
        )
        # Not by its number, `fd`: uvicorn would take it for a socket without addresses, of which
        # asyncio knows neither the client nor that small packets must not wait (TCP_NODELAY).
        Supervisor(config, sockets=[listener]).run()


class Supervisor(Multiprocess):
    """Closes its own listening socket before it tells the workers to end: while that is open, the
    system accepts connections that nobody will serve."""

    def terminate_all(self) -> None:
        for listener in self.sockets:
            listener.close()
        super().terminate_all()


def _end_with_parent() -> None:
    """A worker whose parent was killed would keep the address for ever."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def _options(settings: Settings) -> dict[str, Any]:
    return {
        "log_config": None,  # telemetry.configure has done it
        "access_log": False,  # the application writes its own
        "server_header": False,
        "http": BoundedProtocol,
        "ws": "none",
        "timeout_graceful_shutdown": max(1, round(settings.drain)),
        "forwarded_allow_ips": settings.trusted_proxies,
    }


def url_of(listener: socket.socket) -> str:
    """Where it can be reached."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; raises ServeError where the address cannot be had."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=2048)
    except socket.gaierror as error:
        raise ServeError(f"cannot listen on {host}:{port}: {error.strerror}") from None
    except OSError as error:
        raise ServeError(
            f"cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}"
        ) from None
    except UnicodeError:
        raise ServeError(f"cannot listen on {host}:{port}: not a host name") from None
