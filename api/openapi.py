"""The OpenAPI document as a file: `python -m api.openapi docs/openapi.json`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from api.app import create_app
from api.settings import Settings
from datagen.files import write_json


def document() -> dict[str, Any]:
    """What the service serves at /openapi.json."""
    return create_app(Settings(), lambda: iter(())).openapi()


if __name__ == "__main__":
    write_json(Path(sys.argv[1]), document())
