"""The calculator served by LitServe, to compare the service with.

    python -m benchmarks.serve_litserve CHECKPOINT

One process speaks HTTP, and another calculates.
"""

import socket
import sys
from typing import Any

import litserve
import litserve.server

from benchmarks.load import LOOPBACK
from calcgpt.inference.calculator import Calculator


class Api(litserve.LitAPI):  # type: ignore[misc]
    """Calls the calculator once for each request."""

    def __init__(self, checkpoint: str) -> None:
        super().__init__(api_path="/v1/calculate")
        self._checkpoint = checkpoint

    def setup(self, device: str) -> None:
        self._calculator = Calculator.load(self._checkpoint)

    def decode_request(self, request: dict[str, Any]) -> str:
        return str(request["expression"])

    def predict(self, x: str) -> dict[str, Any]:
        return self._calculator(x).to_dict()

    def encode_response(self, output: dict[str, Any]) -> dict[str, Any]:
        return output


def main() -> None:
    """Serves on a free port."""
    litserve.server._MCP_AVAILABLE = (
        False  # it takes the package `mcp` for `fastmcp`, which it needs
    )
    with socket.create_server((LOOPBACK, 0)) as free:
        port = free.getsockname()[1]
    server = litserve.LitServer(Api(sys.argv[1]), accelerator="cpu")
    server.run(LOOPBACK, port, generate_client_file=False, access_log=False)


if __name__ == "__main__":
    main()
