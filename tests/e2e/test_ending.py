"""Several processes of the service: how they share work, and how they end or are killed."""

import fcntl
import json
import os
import re
import signal
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Thread
from typing import Any, BinaryIO

import pytest
from server_forks import ForkedProcess
from serving import DEFAULTS, Server, free_port, server
from waiting import PATIENCE, wait_for
from wire import address, answer, ask, connect, head, metric, refusal, request

# Texts of this length share no batch, so this is seconds of work. The limits leave time for it on a
# busy machine.
LONG = f"{'9' * 40}*{'8' * 40}"
PATIENT = ("--deadline", 250, "--drain", 250)
workers = pytest.mark.parametrize("workers", [1, 2])


def hammer(running: Server, outcomes: list[Any]) -> None:
    """Sends requests until a response says that it is the last. Adds the outcome of each."""
    connection = HTTPConnection(*address(running), timeout=PATIENCE)
    body = json.dumps({"expression": "12.5+3"})
    while True:
        try:
            connection.request("POST", "/v1/calculate", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            json.loads(response.read())
            outcomes.append(response.status)
        except (OSError, HTTPException, ValueError) as error:
            outcomes.append(error)
            return
        if response.will_close:
            outcomes.append("closed")
            return


def listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port)).close()
    except ConnectionRefusedError:
        return False
    except ConnectionResetError:  # it was closed meanwhile
        pass
    return True


def status(running: Server) -> int | None:
    """The status of /readyz; None if who accepted the connection ends before it answers."""
    with suppress(ConnectionError), connect(running) as connection:
        connection.sendall(head("/readyz", method="GET"))
        return answer(connection)[0]
    return None


def ready(running: Server) -> list[int]:
    """Returns the workers that have been ready so far."""
    return [int(pid) for pid in re.findall(r"worker (\d+) is ready", running.log)]


@workers
def test_requests_are_answered_to_the_end(workers: int) -> None:
    """None on a kept connection is lost: the last response of each says that it is the last."""
    outcomes: list[Any] = []
    with server("calculator", "--workers", workers, *PATIENT) as running:
        wait_for(lambda: workers in (1, len(ready(running))))
        clients = [Thread(target=hammer, args=(running, outcomes)) for _ in range(32)]
        for client in clients:
            client.start()
        wait_for(lambda: outcomes.count(200) > 64)
        assert set(outcomes) == {200}
        running.process.terminate()
        for client in clients:
            client.join(PATIENCE)
        assert running.process.wait(PATIENCE) == 0
        logged = Counter(record["status"] for record in running.records if "status" in record)
    assert set(outcomes) <= {200, 503, "closed"}
    assert outcomes.count("closed") == len(clients)
    assert logged == {status: outcomes.count(status) for status in {*outcomes} - {"closed"}}


@workers
def test_new_requests_are_refused_while_streams_finish(workers: int) -> None:
    body = json.dumps({"expression": "1+1"}).encode()
    headers = (f"Content-Length: {len(body)}", "Expect: 100-continue")
    interim = b"HTTP/1.1 100 Continue\r\n\r\n"
    with (
        server("calculator", "--workers", workers, *PATIENT) as running,
        connect(running) as accepted,
        connect(running) as kept,
        ExitStack() as stack,
    ):
        kept.sendall(head("/readyz", method="GET"))
        assert answer(kept)[0] == 200
        accepted.sendall(head("/v1/calculate/stream", *headers))
        assert accepted.recv(len(interim), socket.MSG_WAITALL) == interim
        begun = stack.enter_context(connect(running))
        begun.sendall(request("/v1/calculate/stream", {"expression": LONG}))
        assert begun.recv(1, socket.MSG_PEEK)
        running.process.terminate()
        wait_for(lambda: not listens(*address(running)))
        kept.sendall(request("/v1/calculate", {"expression": "1+1"}))
        assert refusal(kept, 503, "ending")["connection"] == "close"
        accepted.sendall(body)  # only now: this stream cannot finish before
        for stream in (begun, accepted):
            status, _, content = answer(stream)
            assert status == 200
            assert content.rpartition(b"event: ")[2].startswith(b"result\n")
        assert running.process.wait(PATIENCE) == 0


@workers
def test_a_request_that_outlasts_the_drain_is_503(workers: int) -> None:
    options = ("--workers", workers, "--drain", 1, "--max-pending", 100_000)
    longest = f"{'7' * 150}*{'8' * 150}"  # a hundred take some seconds
    with server("calculator", *options) as running:
        with connect(running) as connection:
            connection.sendall(request("/v1/calculate/batch", {"expressions": [longest] * 100}))
            wait_for(lambda: metric(running, "calcgpt_requests_in_flight") >= 100)
            running.process.terminate()
            assert int(refusal(connection, 503, "ending")["retry-after"]) >= 1
        assert running.process.wait(PATIENCE) == 0
        assert "Traceback" not in running.log


@workers
def test_a_log_that_nobody_reads_stops_nothing(workers: int, tmp_path: Path) -> None:
    log = tmp_path / "log"
    os.mkfifo(log)
    reader = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4_096)  # enough for a dozen records
    port = free_port()
    options = ["--port", str(port), "--checkpoint", "calculator", "--workers", str(workers)]
    process = ForkedProcess(["serve", *options], os.environ | DEFAULTS, log)
    try:
        running = Server(process, f"http://127.0.0.1:{port}", log)
        wait_for(lambda: listens(*address(running)) and status(running) == 200)
        for _ in range(60):
            ask(running, "1+1")
        process.terminate()
        assert process.wait() == 0
    finally:
        process.kill()
        os.close(reader)


@pytest.fixture
def leased(tiny_copy: Path) -> Iterator[BinaryIO]:
    """A leased file of a checkpoint: the kernel blocks whoever opens it until the lease ends.

    The lease ends when the file is closed, or after `/proc/sys/fs/lease-break-time`, 45 seconds.
    """
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)  # the kernel sends it, too
    with (tiny_copy / "metrics.json").open("r+b") as file:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        yield file
    signal.signal(signal.SIGIO, before)


@workers
def test_a_signal_before_it_is_ready_ends_it(
    workers: int, tiny_copy: Path, leased: BinaryIO, tmp_path: Path
) -> None:
    options = ["--port", "0", "--checkpoint", str(tiny_copy), "--workers", str(workers)]
    process = ForkedProcess(["serve", *options], os.environ | DEFAULTS, tmp_path / "log")
    try:
        opened = lambda: fcntl.fcntl(leased, fcntl.F_GETLEASE) != fcntl.F_WRLCK  # noqa: E731
        wait_for(lambda: opened() or process.poll() is not None)
        process.terminate()
        leased.close()
        assert process.wait() in (0, -signal.SIGTERM)
    finally:
        process.kill()
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_a_terminal_that_closes_does_not_end_it(tiny_folder: Path) -> None:
    with server(tiny_folder) as running:
        for number in (signal.SIGHUP, signal.SIGTTIN, signal.SIGTTOU):
            running.process.send_signal(number)
        assert status(running) == 200


def test_sighup_replaces_all_workers_and_each_request_gets_a_response(tiny_folder: Path) -> None:
    asked = request("/v1/calculate", {"expression": "12.5+3"})
    with server(tiny_folder, "--workers", 2) as running:

        def is_replaced() -> bool:
            with connect(running) as connection:
                connection.sendall(asked)
                if answer(connection)[0] == 503:  # by a worker that ends
                    return False
            return len(ready(running)) == 4

        wait_for(lambda: len(ready(running)) == 2)
        running.process.send_signal(signal.SIGHUP)
        wait_for(is_replaced)


def test_a_worker_that_cannot_start_is_missed_and_the_last_one_ends_the_service(
    tiny_copy: Path,
) -> None:
    with server(tiny_copy, "--workers", 2) as running:
        wait_for(lambda: len(ready(running)) == 2)
        (tiny_copy / "model.safetensors").write_bytes(b"not a model")
        for n, worker in enumerate(ready(running)):
            wait_for(lambda n=n: running.log.count("cannot start: ") == n)
            assert status(running) == 200
            os.kill(worker, signal.SIGKILL)
        assert running.process.wait(PATIENCE) == 2
        assert not listens(*address(running))
        log = running.log
    assert re.search(r"worker \d+ cannot start: .*model.safetensors", log)
    assert log.splitlines()[-1] == "error: no worker could start; the log says why"


def n_connections(running: Server, pid: int) -> int:
    """Returns how many established connections of the service a worker has accepted."""
    suffix = f":{address(running)[1]:04X}"
    inodes = set()
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, *_, inode = line.split()[:10]
        if state == "01" and local.endswith(suffix):
            inodes.add(f"socket:[{inode}]")
    links = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            links.append(str(entry.readlink()))
    return len(inodes.intersection(links))


def test_workers_share_connections_that_come_at_once(tiny_folder: Path) -> None:
    n_in_a_row = 0
    with server(tiny_folder, "--workers", 2) as running:
        wait_for(lambda: len(ready(running)) == 2)
        pids = ready(running)

        def counts() -> list[int]:
            return [n_connections(running, pid) for pid in pids]

        # On a busy machine, one of them may not run during a whole burst.
        for _ in range(50):
            wait_for(lambda: sum(counts()) == 0)
            with ExitStack() as stack:
                for _ in range(64):
                    stack.enter_context(connect(running))
                wait_for(lambda: sum(counts()) == 64)
                n_in_a_row = n_in_a_row + 1 if min(counts()) >= 16 else 0
            if n_in_a_row == 5:
                return
    pytest.fail("one worker accepted most connections")


def test_workers_count_together_and_a_killed_one_is_replaced() -> None:
    with server("calculator", "--workers", 2, "--engine", "auto", forked=False) as running:
        wait_for(lambda: len(ready(running)) == 2)
        for _ in range(20):
            assert ask(running)["verified"]
        for _ in range(5):  # whichever answers
            assert metric(running, "calcgpt_answers_total") == 20
        # They know their clients, and so can count for each: not so for a socket without addresses.
        clients = {record["client"] for record in running.records if "client" in record}
        assert clients == {"127.0.0.1"}

        killed, *_ = ready(running)
        os.kill(killed, signal.SIGKILL)
        assert all(ask(running)["verified"] for _ in range(10))  # by the other
        wait_for(lambda: len(ready(running)) == 3)
        assert all(ask(running)["verified"] for _ in range(10))
        # They end with a killed supervisor.
        try:
            running.process.kill()
            wait_for(lambda: not listens(*address(running)))
        finally:
            for pid in ready(running):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
