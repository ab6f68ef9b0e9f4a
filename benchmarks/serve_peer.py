"""Two FastAPI endpoints to compare the service with: what HTTP alone takes, and the usual way.

    python -m benchmarks.serve_peer CHECKPOINT constant|function

`constant` answers each expression with the same body. `function` calls the calculator in a thread,
as FastAPI does with a function that is not a coroutine.
"""

import sys
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from calcgpt.inference.calculator import Calculator


class Body(BaseModel):
    """A request."""

    expression: str


def main() -> None:
    """Serves on a free port."""
    calculator = Calculator.load(sys.argv[1])
    app = FastAPI()
    constant = calculator("12.5+3").to_dict()

    async def answer_constant(body: Body) -> dict[str, Any]:
        return constant

    def answer(body: Body) -> dict[str, Any]:
        return calculator(body.expression).to_dict()

    endpoints = {"constant": answer_constant, "function": answer}
    app.post("/v1/calculate")(endpoints[sys.argv[2]])
    uvicorn.run(app, port=0, access_log=False, loop="uvloop", http="httptools")


if __name__ == "__main__":
    main()
