"""Errors, limits and damage: a real process of the service, over raw sockets on loopback."""

import json
import resource
import select
import shutil
import socket
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from commands import RunCli
from serving import Server, server
from waiting import PATIENCE, wait_for
from wire import address, answer, ask, connect, head, memory, metric, refusal, request

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

MIB = 1 << 20
SLOW = f"{'7' * 300}*{'8' * 300}"  # a fifth of a second of work, at least
# Products whose texts share no batch, so that the model is busy for many times as long as a test.
# With their planning, they count as N_OPERATIONS.
LONG: dict[str, Any] = {"expressions": [f"{'9' * 99}*{'8' * 99}"] * 100}
N_OPERATIONS = 1_122
SLOW_BODIES: dict[str, Any] = {
    "/v1/calculate": {"expression": SLOW},
    "/v1/calculate/batch": {"expressions": [SLOW, "1+1"]},
    "/v1/calculate/stream": {"expression": SLOW},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": SLOW}]},
}


@pytest.fixture(scope="module")
def strict() -> Iterator[Server]:
    """A server that admits N_OPERATIONS, and has time for them on a busy machine, too."""
    limits = ("--max-pending", N_OPERATIONS, "--deadline", 250)
    with server("calculator", *limits) as running:
        yield running


@pytest.fixture(scope="module")
def patient() -> Iterator[Server]:
    """A server that admits many operations, and has time for them."""
    with server("calculator", "--max-pending", 2 * N_OPERATIONS) as running:
        yield running


# Clients that disconnect, or request too much.


@pytest.mark.parametrize("path", SLOW_BODIES)
def test_a_client_that_disconnects_frees_its_place(patient: Server, path: str) -> None:
    shed = metric(patient, 'calcgpt_sheds_total{reason="disconnected"}')
    with ExitStack() as stack:
        n_before = 0
        if not path.endswith("stream"):  # the request comes after LONG: it cannot end too early
            other = stack.enter_context(connect(patient))
            other.sendall(request("/v1/calculate/batch", LONG))
            n_before = N_OPERATIONS
            wait_for(lambda: metric(patient, "calcgpt_requests_in_flight") == n_before)
        with connect(patient) as connection:
            connection.sendall(request(path, SLOW_BODIES[path]))
            if path.endswith("stream"):
                with connection.makefile("rb") as lines:
                    assert any(line == b"event: token\n" for line in lines)
            wait_for(lambda: metric(patient, "calcgpt_requests_in_flight") > n_before)
        wait_for(lambda: metric(patient, "calcgpt_requests_in_flight") == n_before)
        assert metric(patient, 'calcgpt_sheds_total{reason="disconnected"}') == shed + 1
    wait_for(lambda: metric(patient, "calcgpt_requests_in_flight") == 0)

    ask(patient)  # its first token comes after the last token of the cancelled work
    written = metric(patient, "calcgpt_tokens_total")
    n_new = len(ask(patient)["nodes"][0]["output"])
    assert metric(patient, "calcgpt_tokens_total") == written + n_new


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/calculate/batch", {"expressions": ["1+1+1+1+1+1"] * 100}),
        ("/v1/calculate", {"expression": "+".join(["7/8"] * 200)}),
        ("/v1/calculate/stream", {"expression": "+".join(["7/8"] * 20)}),
    ],
)
def test_a_client_that_reads_nothing_keeps_no_room(
    patient: Server, path: str, body: dict[str, Any]
) -> None:
    """Its response waits for it: more than the system would keep."""
    with connect(patient, receive_buffer=4_096) as connection:
        connection.sendall(request(path, body))
        wait_for(lambda: metric(patient, "calcgpt_requests_in_flight") > 0)
        wait_for(lambda: metric(patient, "calcgpt_requests_in_flight") == 0)
        status, _, content = answer(connection)
    assert (status, len(content) > 150_000) == (200, True)
    assert content.rstrip().endswith(
        (b'"problem":null}]}', b'"model":"calculator"}')
    )  # it is whole


@pytest.mark.parametrize("expression", ["7/8*9", "sqrt(7)/8"])  # the second is planned in a thread
def test_the_streams_of_one_client_do_not_keep_another_waiting(
    patient: Server, expression: str
) -> None:
    """Most of them have not begun when the other client, who came last, has its answer."""
    n = 400
    with ExitStack() as stack:
        streams = [stack.enter_context(connect(patient)) for _ in range(n)]
        for stream in streams:
            stream.sendall(request("/v1/calculate/stream", {"expression": expression}))
        with socket.create_connection(address(patient), PATIENCE, ("127.0.0.2", 0)) as other:
            other.sendall(request("/v1/calculate", {"expression": "1+1"}))
            assert answer(other)[0] == 200
        begun, _, _ = select.select(streams, [], [], 0)
        assert len(begun) < n / 2
    wait_for(lambda: metric(patient, "calcgpt_requests_in_flight") == 0)


def test_requests_above_the_limit_are_refused_until_there_is_room(strict: Server) -> None:
    with connect(strict) as first:
        first.sendall(request("/v1/calculate/batch", LONG))
        wait_for(lambda: metric(strict, "calcgpt_requests_in_flight") == N_OPERATIONS)
        with connect(strict) as second:
            second.sendall(request("/v1/calculate", {"expression": "1+1"}))
            assert int(refusal(second, 503, "full")["retry-after"]) >= 1
            for path in ("/healthz", "/readyz", "/v1/models"):
                second.sendall(head(path, method="GET"))
                assert answer(second)[0] == 200
        assert not select.select([first], [], [], 0)[0]  # the event loop did not wait for the model
    wait_for(lambda: metric(strict, "calcgpt_requests_in_flight") == 0)  # that client is gone
    with connect(strict) as third:
        sum_ = "+".join(["1"] * (N_OPERATIONS // 100))
        body = {"expressions": [sum_] * 100}  # as much as there is room for
        third.sendall(request("/v1/calculate/batch", body))
        status, _, content = answer(third)
        assert status == 200
        assert {item["status"] for item in json.loads(content)["items"]} == {200}
    ask(strict)


@pytest.mark.slow
def test_thousands_of_requests_at_once_are_answered_or_refused(tiny_folder: Path) -> None:
    """These are more than the files that it may open at first."""
    # Not forked: a process as a person starts it, with nothing but its own memory. The deadline
    # leaves time for a busy machine.
    options = ("--deadline", 250, "--engine", "auto")
    with open_files() as limit, server(tiny_folder, *options, forked=False) as running:
        n = min(2_500, limit - 200)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        before = memory(running)
        statuses, ready = burst(running, n)
        assert statuses.keys() == {(200, False), (503, True)}  # and Retry-After
        assert statuses.total() == n
        assert ready == {200}
        assert memory(running) - before < n * 65_536
        assert ask(running)["exact"] == "15.5"
        assert metric(running, "calcgpt_requests_in_flight") == 0


@contextmanager
def open_files() -> Iterator[int]:
    """Limits open files to 1024, and yields how many may be allowed."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = before[1] if before[1] != resource.RLIM_INFINITY else 1 << 20
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, limit), before[1]))
    try:
        yield limit
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def burst(running: Server, n: int) -> tuple[Counter[tuple[int, bool]], set[int]]:
    """Sends `n` requests at once, each on a connection of its own.

    All but their last bytes come first: a connection without a request would be closed in time.
    Returns how often each status came, with or without Retry-After, and the statuses of /readyz
    in the meantime.
    """
    question = request("/v1/calculate", {"expression": "12.5+3"})
    statuses: Counter[tuple[int, bool]] = Counter()
    ready = set()

    def ask_whether_it_is_ready() -> None:
        with connect(running) as other:
            other.sendall(head("/readyz", method="GET"))
            ready.add(answer(other)[0])

    with ExitStack() as stack:
        connections = []
        for i in range(n):
            connections.append(stack.enter_context(connect(running)))
            connections[-1].sendall(question[:-1])
            if i % 500 == 499:
                ask_whether_it_is_ready()  # so it has accepted these, and there is room for more
        for connection in connections:
            connection.sendall(question[-1:])
        for i, connection in enumerate(connections):
            if i % 50 == 0:
                ask_whether_it_is_ready()
            status, headers, _ = answer(connection)
            statuses[status, "retry-after" in headers] += 1
    return statuses, ready


# Requests that are invalid or too large.


@pytest.mark.parametrize("framing", ["Content-Length: 104857600", "Transfer-Encoding: chunked"])
def test_a_body_of_100_mb_is_413_and_is_not_kept(strict: Server, framing: str) -> None:
    ask(strict)
    before = peak = memory(strict)
    chunk = b"%x\r\n" % MIB + b" " * MIB + b"\r\n" if "chunked" in framing else b" " * MIB
    with connect(strict) as connection:
        connection.sendall(head("/v1/calculate", framing))
        with suppress(ConnectionError):  # the service reads on for ten seconds
            for _ in range(100):
                connection.sendall(chunk)
                peak = max(peak, memory(strict))
        refusal(connection, 413, "too-large")
    assert peak - before < 20 * MIB
    ask(strict)


# Damaged checkpoints.


def truncate(folder: Path) -> None:
    with (folder / "model.safetensors").open("r+b") as file:
        file.truncate(100)


def flip(folder: Path) -> None:
    with (folder / "model.safetensors").open("r+b") as file:
        content = file.read()
        file.seek(len(content) // 2)
        file.write(bytes(255 - byte for byte in content[len(content) // 2 :]))


def replace(folder: Path) -> None:
    (folder / "config.json").write_text("{}")


def test_a_checkpoint_damaged_while_it_runs_matters_only_to_a_restart(
    tiny_folder: Path, tiny_copy: Path, serve_here: RunCli
) -> None:
    with server(tiny_copy, "--engine", "auto") as running:
        before = ask(running, "(12.5+3)*88")
        for damage in (truncate, flip, replace, shutil.rmtree):
            damage(tiny_copy)
            assert ask(running, "(12.5+3)*88") == before, damage
            ended = serve_here("--port", 0, "--checkpoint", tiny_copy)
            assert "tiny" in ended.error, damage
            shutil.copytree(tiny_folder, tiny_copy, dirs_exist_ok=True)
