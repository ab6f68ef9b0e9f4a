"""Calculating, training and serving contact no other host.

The process runs in a namespace of the kernel that has no network, if it may make one.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from waiting import PATIENCE

OFFLINE = ["unshare", "--map-root-user", "--net"]

# What a person does, in one process: numbers and a tiny model, its training, and its service. Any
# attempt to look up or to reach a host is an error, even one that a library would swallow.
PROGRAM = """
import sys
attempts = []

def watch(event, arguments):
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"):
        if "AF_UNIX" not in repr(arguments):
            attempts.append((event, arguments))

sys.addaudithook(watch)

from fastapi.testclient import TestClient

from api.app import create_app
from api.service import load_models
from api.settings import Settings
from calcgpt.cli import cli

folder = sys.argv[1]
steps = ["--set", "train.steps=2", "--threads", "1", "--quiet"]
for words in (
    ["datagen", f"{folder}/data", "--train", "200", "--val", "20", "--test", "20"],
    ["train", "--recipe", "nano", "--data", f"{folder}/data", "--out", f"{folder}/run", *steps],
    ["calc", "1+1", "--checkpoint", "calculator"],
):
    try:
        cli.main(args=words, prog_name="calcgpt")
    except SystemExit as stop:
        assert not stop.code, words

settings = Settings(checkpoint=f"{folder}/run", engine="torch")
models = list(load_models(settings.checkpoint, others=False, engine="torch"))
with TestClient(create_app(settings, lambda: iter(models))) as client:
    for path in ("/", "/docs", "/openapi.json", "/v1/models", "/metrics"):
        assert client.get(path).status_code == 200, path
    assert client.post("/v1/calculate", json={"expression": "1+1"}).status_code == 200
assert not attempts, attempts
print("all done")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for a namespace")
def test_nothing_needs_or_tries_a_network(tmp_path: Path) -> None:
    may_unshare = subprocess.run([*OFFLINE, "true"], capture_output=True).returncode == 0
    command = [*(OFFLINE if may_unshare else []), sys.executable, "-c", PROGRAM, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.endswith("all done\n")
