"""`calcgpt serve`: one process or several, which run the application with uvicorn."""

import gc
import logging
import os
import resource
import signal
import socket
import sys
import time
from itertools import chain
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

from api import problems
from api.app import create_app, health_routes, prepare
from api.connections import Connection
from api.forwarded import Forwarded
from api.logs import flush
from api.middleware import BodyLimit, RequestLog
from api.problems import RETRY, ProblemError, ending_problem
from api.service import LoadedModel, loader
from api.settings import Settings, load_settings
from api.telemetry import Metrics, shared_folder
from calcgpt.base.errors import UserError
from calcgpt.base.processes import end_with_parent

log = logging.getLogger(__name__)

OWN_FILES = 100  # open files of a process that are no connections, at most
ACCEPTED = 32  # connections that are accepted at a time, at most
MAX_FAILED_WORKERS = 5
MAX_RETRY_SECONDS = 60.0
MAX_OWN_CONNECTIONS = 100  # of each server in the process that starts the workers
GRACE_SECONDS = 1  # for the open requests of such a server when it ends
RECEIVE_BYTES, SEND_BYTES = 16_384, 65_536  # about what the system keeps for a connection
HANG_SECONDS = 20  # until a silent worker is killed; a busy machine may delay one for seconds
NO_EFFECT = (signal.SIGHUP, signal.SIGTTIN, signal.SIGTTOU)  # with one worker or several
COMMON: dict[str, Any] = {  # options of all servers
    "log_config": None,  # `prepare` configures the logs
    "access_log": False,  # RequestLog writes one
    "server_header": False,
    "proxy_headers": False,  # `Forwarded` reads them
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
        flush()  # an error comes after what was logged


def worker() -> ASGIApp:
    """Returns the application of a worker process, with settings from CALCGPT_... variables.

    The default model is loaded first, so that other workers answer until this one is ready.
    """
    settings = load_settings({})
    prepare(settings)
    end_with_parent()
    for signum in NO_EFFECT:  # a terminal that closes sends SIGHUP to all processes
        signal.signal(signum, signal.SIG_IGN)
    models = loader(settings)()
    try:
        first = next(models)
    except UserError as error:
        log.error("worker %d ends: %s", os.getpid(), error)
        sys.exit(2)
    gc.freeze()  # as in a single process
    log.info("worker %d is ready: %s by %s", os.getpid(), first.name, first.engine)
    app = create_app(settings, lambda: chain([first], models))
    return _forwarded(app, settings)


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
    server = uvicorn.Server(uvicorn.Config(_forwarded(app, settings), **_options(settings)))
    # For signals before uvicorn installs its handlers. After it ends, uvicorn restores these
    # handlers and raises the signal again.
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, lambda *_: setattr(server, "should_exit", True))
    for signum in NO_EFFECT:
        signal.signal(signum, lambda *_: _ignore_signal())
    server.run(sockets=_many(listener))
    if failures:
        raise failures[0]


def _ignore_signal() -> None:
    log.warning("SIGHUP, SIGTTIN and SIGTTOU have no effect: restart the service instead")


def _supervise(settings: Settings, listener: socket.socket) -> None:
    """Runs worker processes that accept from one socket, and replaces those that die.

    This process answers the health checks. It has nothing else to do: neither connections nor the
    model delay it.
    """
    # Errors are found here, because workers that end at once would be replaced forever.
    create_app(settings, loader(settings))
    options = _options(settings)
    model = next(loader(settings)()).name
    health_listener = None
    if settings.health_port is not None:
        health_listener = listen(settings.host, settings.health_port)
        log.info("health and metrics are on %s", url_of(health_listener))
    with shared_folder() as folder:
        os.environ.update(settings.environment(), PROMETHEUS_MULTIPROC_DIR=folder)
        start = f"{settings.workers} workers start" if settings.workers > 1 else "1 worker starts"
        log.info("%s on %s; Ctrl+C ends the service", start, url_of(listener))
        config = uvicorn.Config(
            "api.server:worker", factory=True, workers=settings.workers, **options
        )
        # uvicorn's option `fd` is not used: it would make a Unix socket of the listener, so that
        # asyncio would know no client addresses and not set TCP_NODELAY.
        supervisor = Supervisor(config, _many(listener), model, health_listener)
        supervisor.run()
        supervisor.end_threads()
    if supervisor.error:
        raise supervisor.error


class Worker(Process):
    """A worker whose end is noticed at once, even in the middle of a health check."""

    def start(self) -> None:
        super().start()
        self.child_conn.close()  # now only the worker has that end of the pipe


class Supervisor(Multiprocess):
    """Replaces workers that die, with growing delays if they cannot start, and reports whether one
    serves.

    While workers fail to start and none serves, it refuses requests, so that clients need not wait.
    It closes its listening socket before it ends the workers. As long as the socket is open, the
    system accepts connections, and no worker would serve them.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        sockets: list[socket.socket],
        model: str,
        health_listener: socket.socket | None,
    ) -> None:
        """`model` is the name of the default model, `health_listener` is for health checks."""
        super().__init__(config, sockets)
        self._model, self._health_listener = model, health_listener
        self._fallback: ThreadServer | None = None
        self._health: ThreadServer | None = None
        self.error: UserError | None = None  # why the supervisor ended by itself
        self._served: set[Process] = set()
        self._ended: set[Process] = set()
        self._n_failed = 0  # workers in a row that ended before they served
        self._retry_at = 0.0

    def init_processes(self) -> None:
        """Starts the workers, then the thread that answers health checks."""
        for _ in range(self.processes_num):
            self.processes.append(self._start_worker())
        gc.collect()
        gc.freeze()
        if self._health_listener:
            health = FastAPI(openapi_url=None, redirect_slashes=False)
            problems.install(health)
            metrics = Metrics()
            health.include_router(health_routes(self.ready, metrics))
            health.add_middleware(RequestLog, metrics=metrics)
            self._health = ThreadServer(health, self._health_listener)

    def handle_hup(self) -> None:
        """Does nothing, also at SIGTTIN and SIGTTOU: uvicorn would start and end workers of which
        this class does not know whether they serve."""
        _ignore_signal()

    handle_ttin = handle_ttou = handle_hup

    def _start_worker(self) -> Worker:
        worker = Worker(self.config, self.sockets)
        worker.start()
        return worker

    def ready(self) -> str:
        """Returns the name of the default model. Raises ProblemError if no worker serves."""
        if self.should_exit.is_set():
            raise ending_problem()
        if not self._served:
            detail = "no worker has loaded the model yet"
            raise ProblemError(503, detail, kind="loading", headers=RETRY)
        return self._model

    def keep_subprocess_alive(self) -> None:
        """Replaces dead workers. Ends if none is left and several in a row could not start."""
        self._notice_changes()
        self._update_fallback()
        if self._n_failed >= MAX_FAILED_WORKERS and self._ended.issuperset(self.processes):
            self.error = UserError(f"{self._n_failed} workers in a row could not start")
            self.should_exit.set()
        elif time.monotonic() >= self._retry_at:
            for index, worker in enumerate(self.processes):
                if worker in self._ended:
                    self.processes[index] = self._start_worker()
            self._ended.clear()

    def _notice_changes(self) -> None:
        for worker in self.processes:
            if worker in self._ended:
                continue
            if not worker.is_alive(timeout=self.config.timeout_worker_healthcheck):
                self._end_worker(worker)
            elif worker not in self._served and worker.is_ready(timeout=1):
                self._served.add(worker)
                self._n_failed = 0

    def _update_fallback(self) -> None:
        if self._served or not self._n_failed:
            if self._fallback:
                self._fallback.end()
            self._fallback = None
        elif not self._fallback:
            self._fallback = ThreadServer(BodyLimit(_refuse, limit=1 << 20), self.sockets[0].dup())

    def _end_worker(self, worker: Process) -> None:
        worker.process.join(GRACE_SECONDS)  # it may be about to end
        hangs = worker.process.is_alive()
        worker.kill()
        worker.join()
        how = f"it did not answer for {HANG_SECONDS} s" if hangs else _ending(worker.process)
        log.error("worker %d has ended: %s", worker.process.pid, how)
        self._ended.add(worker)
        if worker not in self._served:
            self._n_failed += 1
            self._retry_at = time.monotonic() + min(2.0**self._n_failed / 4, MAX_RETRY_SECONDS)
        self._served.discard(worker)

    def end_threads(self) -> None:
        """Ends the threads. A thread that still runs when Python ends can crash the process."""
        for server in (self._fallback, self._health):
            if server:
                server.end()

    def terminate_all(self) -> None:
        for listener in self.sockets:
            listener.close()
        super().terminate_all()


def _ending(process: BaseProcess) -> str:
    """Returns how a process has ended, such as `exit code 2` or `SIGKILL`."""
    code = process.exitcode or 0
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    headers = {**RETRY, "Connection": "close"}
    problem = ProblemError(503, "no worker could start; try again", kind="loading", headers=headers)
    await problem.response()(scope, receive, send)


class ThreadServer:
    """A server of a few connections in a thread of this process."""

    def __init__(self, app: ASGIApp, listener: socket.socket) -> None:
        config = uvicorn.Config(
            app,
            **COMMON,
            lifespan="off",
            limit_concurrency=MAX_OWN_CONNECTIONS,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        self._server = uvicorn.Server(config)
        self._thread = Thread(target=self._server.run, kwargs={"sockets": [listener]}, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Ends the server and waits for its thread."""
        self._server.should_exit = True
        self._thread.join(2 * GRACE_SECONDS)


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
        "limit_concurrency": _max_connections(settings),
        "timeout_graceful_shutdown": max(1, round(settings.drain)),
        "timeout_worker_healthcheck": HANG_SECONDS,
    }


def _forwarded(app: ASGIApp, settings: Settings) -> ASGIApp:
    return Forwarded(app, settings.trusted_proxies, settings.proxies)


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
