"""`calcgpt serve`: one process or several, which run the application with uvicorn."""

import gc
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import chain
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from api.app import create_app, health_routes, prepare
from api.connections import Connection
from api.http import RETRY, ProblemError, ending_problem, install_problems
from api.middleware import RequestLog
from api.service import LoadedModel, loader
from api.settings import Settings
from api.telemetry import Metrics, flush_logs
from calcgpt.base.errors import UserError
from calcgpt.base.processes import end_with_parent

log = logging.getLogger(__name__)

OWN_FILES = 100  # open files of a process that are no connections, at most
ACCEPTED = 32  # connections that are accepted at a time, at most
MAX_OWN_CONNECTIONS = 100  # of the server in the process that starts the workers
GRACE_SECONDS = 1  # for the open requests of that server when it ends
RECEIVE_BYTES, SEND_BYTES = 16_384, 65_536  # about what the system keeps for a connection
HANG_SECONDS = 20  # until a silent worker is killed; a busy machine may delay one for seconds
# A terminal that closes sends SIGHUP to all its processes.
IGNORED = (signal.SIGHUP, signal.SIGTTIN, signal.SIGTTOU)
COMMON: dict[str, Any] = {  # options of all servers
    "log_config": None,  # `prepare` configures the logs
    "access_log": False,  # RequestLog writes one
    "server_header": False,
    "proxy_headers": False,
    "ws": "none",
    "http": Connection,
}


def run(settings: Settings) -> None:
    """Serves until SIGINT or SIGTERM, then finishes the accepted requests.

    Raises UserError if the checkpoint does not load or the address is not available.
    """
    prepare(settings)
    listener = listen(settings.host, settings.port)
    try:
        if settings.workers == 1 and settings.health_port is None:
            _serve(settings, listener)
        else:
            _supervise(settings, listener)
        log.info("the service has ended")
    finally:
        flush_logs()  # an error comes after what was logged


def worker(settings: Settings) -> ASGIApp:
    """Returns the application of a worker process.

    The default model is loaded first, so that other workers answer until this one is ready.
    """
    prepare(settings)
    end_with_parent()
    _ignore_signals()
    models = loader(settings)()
    try:
        first = next(models)
    except UserError as error:
        log.error("worker %d cannot start: %s", os.getpid(), error)
        flush_logs()
        sys.exit(STARTUP_FAILURE)  # so that the supervisor does not start it over and over
    gc.freeze()  # as in a single process
    log.info("worker %d is ready: %s by %s", os.getpid(), first.name, first.engine)
    return create_app(settings, lambda: chain([first], models))


def _serve(settings: Settings, listener: socket.socket) -> None:
    failures: list[Exception] = []

    def on_ready(model: LoadedModel) -> None:
        gc.freeze()  # otherwise a collection would look at 200,000 objects, for 0.2 s
        if server.should_exit:  # the listener may be closed, too
            return
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
    _ignore_signals()
    server.run(sockets=_many(listener))
    if failures:
        raise failures[0]


def _ignore_signals() -> None:
    for signum in IGNORED:
        signal.signal(signum, signal.SIG_IGN)


def _supervise(settings: Settings, listener: socket.socket) -> None:
    """Runs worker processes that accept from one socket, and replaces those that die.

    This process answers the health checks. It has nothing else to do: neither connections nor the
    model delay it.
    """
    # Errors are found here, where they become one line.
    load = loader(settings)
    create_app(settings, load)
    options = _options(settings)
    model = next(load()).name
    health_listener = None
    if settings.health_port is not None:
        health_listener = listen(settings.host, settings.health_port)
        log.info("health and metrics are on %s", url_of(health_listener))
    # It says how workers fare.
    logging.getLogger("uvicorn.error").setLevel(settings.log_level.upper())
    with TemporaryDirectory(prefix="calcgpt-metrics-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        start = f"{settings.workers} workers start" if settings.workers > 1 else "1 worker starts"
        log.info("%s on %s; Ctrl+C ends the service", start, url_of(listener))
        config = uvicorn.Config(
            partial(worker, settings), factory=True, workers=settings.workers, **options
        )
        # uvicorn's option `fd` is not used: it would make a Unix socket of the listener, so that
        # asyncio would know no client addresses and not set TCP_NODELAY.
        supervisor = Supervisor(config, _many(listener), model)
        health = _served(supervisor.health(), health_listener) if health_listener else nullcontext()
        with health:
            supervisor.run()
    if any(worker.exitcode == STARTUP_FAILURE for worker in supervisor.processes):
        raise UserError("no worker could start; the log says why")


class Supervisor(Multiprocess):
    """uvicorn's supervisor, which reports whether a worker serves, and ends when one cannot start
    only if no other serves.

    It closes its listening sockets before it ends the workers. As long as they are open, the system
    accepts connections, and no worker would serve them.
    """

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket], model: str) -> None:
        """`model` is the name of the default model."""
        super().__init__(config, sockets)
        self._model = model
        self._serves = False

    def keep_subprocess_alive(self) -> None:
        living = [worker for worker in self.processes if worker.exitcode is None]
        self._serves = any(worker.is_ready(timeout=1) for worker in living)
        if self._serves:
            self.processes = [w for w in self.processes if w.exitcode != STARTUP_FAILURE]
        super().keep_subprocess_alive()

    def terminate_all(self) -> None:
        for listener in self.sockets:
            listener.close()
        super().terminate_all()

    def ready(self) -> str:
        """Returns the name of the default model. Raises ProblemError if no worker serves."""
        if self.should_exit.is_set():
            raise ending_problem()
        if not self._serves:
            detail = "no worker has loaded the model yet"
            raise ProblemError(503, detail, kind="loading", headers=RETRY)
        return self._model

    def health(self) -> FastAPI:
        """Returns an application that answers health checks."""
        app, metrics = FastAPI(openapi_url=None, redirect_slashes=False), Metrics()
        install_problems(app)
        app.include_router(health_routes(self.ready, metrics))
        app.add_middleware(RequestLog, metrics=metrics)
        return app


@contextmanager
def _served(app: ASGIApp, listener: socket.socket) -> Iterator[None]:
    """Serves a few connections in a thread of this process. A thread that still runs when Python
    ends can crash the process."""
    config = uvicorn.Config(
        app,
        **COMMON,
        lifespan="off",
        limit_concurrency=MAX_OWN_CONNECTIONS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(2 * GRACE_SECONDS)


def _max_connections(settings: Settings) -> int:
    """Returns how many connections a process takes at once: no more than it may open files, of
    which some are its own. Beyond that, the system would accept connections that nobody answers.

    Raises UserError if it may open hardly any: libraries abort the process then.
    """
    n_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if n_files == resource.RLIM_INFINITY:
        return settings.max_connections
    most = (n_files - OWN_FILES) * 4 // 5  # a quarter more are refused in words
    if most < 1:
        least = OWN_FILES + 2
        raise UserError(f"only {n_files} files may be open: serve needs {least} (ulimit -n)")
    if most < settings.max_connections:
        log.warning("at most %d connections at once: %d files may be open", most, n_files)
    return min(most, settings.max_connections)


def _options(settings: Settings) -> dict[str, Any]:
    return {
        **COMMON,
        "proxy_headers": True,
        "forwarded_allow_ips": settings.trusted_proxies,
        "limit_concurrency": _max_connections(settings),
        "timeout_graceful_shutdown": max(1, round(settings.drain)),
        "timeout_worker_healthcheck": HANG_SECONDS,
    }


def _many(listener: socket.socket) -> list[socket.socket]:
    """Returns a listener and copies of it. In each round of its work, the event loop (libuv)
    accepts one connection from each: with one listener, a connection behind hundreds would wait for
    as many rounds, in which the clients before it are served."""
    return [listener, *(listener.dup() for _ in range(ACCEPTED - 1))]


def url_of(listener: socket.socket) -> str:
    """Returns the URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def listen(host: str, port: int) -> socket.socket:
    """Returns a listening socket. Raises UserError if the address is not available."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=2048)
        # Connections inherit these sizes. Otherwise the system would keep megabytes for each client
        # that writes much or reads nothing.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
        return listener
    except socket.gaierror as error:
        reason = error.strerror
    except OSError as error:
        reason = os.strerror(error.errno or 0)
    except UnicodeError:
        reason = "not a host name"
    raise UserError(f"cannot listen on {host}:{port}: {reason}")
