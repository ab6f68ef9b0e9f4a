"""The process: a socket, uvicorn, the application."""

from __future__ import annotations

import os
import signal
import socket
import sys

import uvicorn

from api.app import create_app
from api.settings import Settings
from calcgpt.calculator import Calculator
from calcgpt.checkpoint import Checkpoint, resolve
from calcgpt.errors import UserError


class ServeError(UserError):
    """The service cannot start; the message says why."""


def run(settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM. Raises UserError where the checkpoint does not load or the
    address cannot be had."""
    folder = resolve(settings.checkpoint)
    listener = listen(settings.host, settings.port)
    host, port = listener.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    failures: list[Exception] = []

    def on_ready(name: str) -> None:
        print(f"{name} answers on {url}, documented at {url}/docs; Ctrl+C ends it", file=sys.stderr)

    def on_failure(error: Exception) -> None:
        failures.append(error)
        server.should_exit = True

    app = create_app(lambda: Calculator(Checkpoint.load(folder)), on_ready, on_failure)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    # uvicorn raises the signal that ended it once more, for whoever was there before: for nobody.
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, lambda *_: None)
    server.run(sockets=[listener])
    if failures:
        raise failures[0]


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; raises ServeError where the address cannot be had."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except socket.gaierror as error:
        raise ServeError(f"cannot listen on {host}:{port}: {error.strerror}") from None
    except OSError as error:
        raise ServeError(
            f"cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}"
        ) from None
    except UnicodeError:
        raise ServeError(f"cannot listen on {host}:{port}: not a host name") from None
