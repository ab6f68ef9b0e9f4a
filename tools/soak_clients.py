"""The clients of `tools.soak`: what they ask, and whether what they get is right."""

import json
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from http.client import HTTPConnection, HTTPException, HTTPResponse
from itertools import cycle
from typing import Any

import mpmath

from tools.attack_kinds import ATTACKS

JSON = {"Content-Type": "application/json"}
TIMEOUT = 60.0  # seconds for a response
GRACE = 10.0  # seconds around the death of a worker in which its connections may break
USER = "127.0.0.3"  # the address of all clients but the attacker
# The kinds of requests: how many of 100, the path, and the status of the response.
KINDS = {
    "calculate": (58, "/v1/calculate", 200),
    "long": (10, "/v1/calculate", 200),
    "function": (10, "/v1/calculate", 200),
    "batch": (8, "/v1/calculate/batch", 200),
    "stream": (8, "/v1/calculate/stream", 200),
    "nonsense": (6, "/v1/calculate", 422),
    "slow": (0, "/v1/calculate/stream", 200),  # of slow readers
}
LONG, LONG_VALUE = "+".join(["7/8"] * 20), "17.5"  # a stream of 150 KB
RECEIVE_BYTES, PIECE, PAUSE = 4_096, 4_096, 0.3  # of a slow reader; seconds between two pieces
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    name: getattr(mpmath, name) for name in ("sqrt", "sin", "exp", "ln", "atan")
}
PLACES = 8  # of the answer to a function
ATTACK_SECONDS, ATTACK_CONNECTIONS = 8.0, 500
ATTACKED = [name for name in ATTACKS if name not in ("unread_log", "full_disk")]  # need settings


@dataclass
class Tally:
    """What happened so far. Shared by the clients."""

    started: float
    answers: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)  # by status: 503 under too much load
    wrong: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    broken_by_kill: int = 0
    cut: int = 0  # connections that a client closed before the response
    kills: list[float] = field(default_factory=list)
    replaced: int = 0
    attacks: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)  # of this minute
    lock: threading.Lock = field(default_factory=threading.Lock)

    def was_killed(self, since: float) -> bool:
        return any(since - GRACE <= kill <= time.monotonic() + 0.1 for kill in self.kills)


class Client:
    """Sends requests, one after the other, until told to end."""

    def __init__(self, port: int, seed: int, tally: Tally, ended: threading.Event) -> None:
        self._port, self._tally, self._ended = port, tally, ended
        self._rng = random.Random(seed)  # nosec B311  # no secret
        self._connection: HTTPConnection | None = None

    def run(self) -> None:
        weights = [weight for weight, _, _ in KINDS.values()]
        while not self._ended.is_set():
            if self._rng.random() < 0.03:
                self._hang_up()
            else:
                self._send(self._rng.choices([*KINDS], weights)[0])

    def _problem(self, below: int = 1000) -> tuple[str, str]:
        a, b = self._rng.randrange(below), self._rng.randrange(below)
        sign, value = self._rng.choice([("+", a + b), ("-", a - b), ("*", a * b)])
        return f"{a}{sign}{b}", str(value)

    def _function(self) -> tuple[str, str]:
        name, x = self._rng.choice([*FUNCTIONS]), self._rng.randrange(1, 30)
        with mpmath.workdps(40):
            value = round(Decimal(mpmath.nstr(FUNCTIONS[name](x), 35)), PLACES)
        return f"{name}({x})", f"{value:f}".rstrip("0").rstrip(".")

    def _request(self, kind: str) -> tuple[dict[str, Any], Callable[[bytes], bool]]:
        """Returns the body of a request, and whether a response to it is right."""
        if kind == "nonsense":
            text = self._rng.choice(["1+", "x" * 1000, "1/0", "(" * 300, "1,5,2"])
            return {"expression": text}, lambda content: b"urn:calcgpt" in content
        if kind == "batch":
            texts, values = zip(*(self._problem() for _ in range(8)), strict=True)
            return {"expressions": texts}, lambda content: all(
                _is_right(item["calculation"], value)
                for item, value in zip(json.loads(content)["items"], values, strict=True)
            )
        if kind == "function":
            text, value = self._function()
        elif kind == "slow":
            text, value = LONG, LONG_VALUE
        else:
            text, value = self._problem(
                10 ** self._rng.randrange(1, 41) if kind == "long" else 1000
            )
        # A stream ends with the data of the event `result`. Elsewhere, they are the whole response.
        return {"expression": text}, lambda content: _is_right(
            json.loads(content.rpartition(b"event: result\ndata: ")[2]), value
        )

    def _hang_up(self) -> None:
        """Sends a request, half of the times a part of it, and closes the connection before the
        response."""
        body = json.dumps({"expression": self._problem()[0]}).encode()
        lines = ("POST /v1/calculate HTTP/1.1", "Host: localhost", "Content-Type: application/json")
        text = "\r\n".join((*lines, f"Content-Length: {len(body)}", "", "")).encode() + body
        cut = len(text) if self._rng.random() < 0.5 else self._rng.randrange(len(text))
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", self._port), TIMEOUT, (USER, 0)) as connection,
        ):
            connection.sendall(text[:cut])
        with self._tally.lock:
            self._tally.cut += 1

    def _send(self, kind: str) -> None:
        _, path, expected = KINDS[kind]
        body, is_right = self._request(kind)
        tally, start = self._tally, time.monotonic()
        try:
            if self._connection is None:
                self._connection = self._connect()
            self._connection.request("POST", path, json.dumps(body), JSON)
            response = self._connection.getresponse()
            status, content = response.status, self._read(response)
        except (OSError, HTTPException) as error:
            if self._connection:
                self._connection.close()
            self._connection = None
            with tally.lock:
                if tally.was_killed(start):
                    tally.broken_by_kill += 1
                else:
                    tally.lost.append(f"{kind}: {error!r}")
            return
        with tally.lock:
            if status in (429, 503):
                tally.refused[str(status)] += 1
            elif status != expected or not is_right(content):
                tally.wrong.append(f"{kind} {json.dumps(body)}: {status} {content[:300]!r}")
            else:
                tally.answers[kind] += 1
                if kind != "slow":
                    tally.latencies.append(time.monotonic() - start)

    def _connect(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self._port, TIMEOUT, source_address=(USER, 0))

    def _read(self, response: HTTPResponse) -> bytes:
        return response.read()


class SlowReader(Client):
    """Asks for long streams, and reads them a little at a time."""

    def run(self) -> None:
        while not self._ended.is_set():
            self._send("slow")
            self._connection = None  # which the service closes while the client still reads

    def _connect(self) -> HTTPConnection:
        connection = super()._connect()
        connection.sock = socket.socket()
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        connection.sock.settimeout(TIMEOUT)
        connection.sock.bind((USER, 0))
        connection.sock.connect((connection.host, connection.port))
        return connection

    def _read(self, response: HTTPResponse) -> bytes:
        content = b""
        while piece := response.read(PIECE):
            content += piece
            self._ended.wait(PAUSE)
        return content


def attack(port: int, tally: Tally, ended: threading.Event) -> None:
    """Attacks the service from another address, in all ways in turns, until told to end."""
    for name in cycle(ATTACKED):
        if ended.is_set():
            return
        with suppress(OSError):  # a worker was killed, or a connection is refused
            ATTACKS[name](port, ATTACK_SECONDS, ATTACK_CONNECTIONS)
        with tally.lock:
            tally.attacks[name] += 1


def _is_right(calculation: dict[str, Any], value: str) -> bool:
    """Returns whether the model's answer is this value, and the service says so."""
    answers = (calculation["result"], calculation["exact"])
    return answers == (value, value) and calculation["verified"]
