"""What the browser needs: what its engine (`api/static/engine`) must know of a checkpoint besides
`model.safetensors`, and the page with its own address and the list of its modules."""

import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from calcgpt.base.errors import ConfigError
from calcgpt.checkpoint import Checkpoint
from calcgpt.inference.cases.network import unsupported_part

PAGE_POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'"
MAX_ADDRESS = 2_000
SCRIPTS = ("backend.js", "calculator.js")  # the modules that the page names, in their order
WORKER = "engine/worker.js"  # the module that runs the models
IMPORT = r'^(?:import (?P<names>[^"]+?)|export \*) from "(?P<name>\.[^"]+)";\n'
PRELOAD = '    <link rel="preload" as="fetch" crossorigin href="static/backend.json">\n'
PREVIEW = "static/preview.png"  # what a link to the page shows, beside the page
# Links to a model with parts switched off lead through a page with another picture: no server sees
# the hash of an address.
OFF, OFF_PREVIEW = "static/off.html", "off.png"
SCORES = ("n", "char_accuracy", "exact_match", "by_operation")


def manifest_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """Returns what the engine needs to know of a model besides its weights, as JSON values.

    Raises ConfigError if the engine cannot run it.
    """
    config = checkpoint.recipe.model
    if part := unsupported_part(config):
        raise ConfigError(f"the engine of the page does not support {part}")
    return {
        "id": checkpoint.name,
        "parameters": checkpoint.n_parameters,
        "metrics": scores_on_test(checkpoint),
        "vocabulary": checkpoint.tokenizer.require_characters().vocabulary,
        "layers": config.n_layer,
        "heads": config.n_head,
        "neurons": config.ff_width,  # of each layer
        "switches": checkpoint.switches.model_dump() if checkpoint.switches else None,
    }


def scores_on_test(checkpoint: Checkpoint) -> dict[str, Any] | None:
    """Returns the main scores of a checkpoint on test problems; None if it was not scored."""
    scores = checkpoint.metrics.get("test")
    return {name: scores[name] for name in SCORES if name in scores} if scores else None


def is_origin(text: str) -> bool:
    """Returns whether this is a web origin: a scheme, a host, and perhaps a port."""
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises ValueError if it is not a port
    except ValueError:
        return False
    is_web = parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
    return is_web and text == f"{parts.scheme}://{parts.netloc}"


def page_address(text: str) -> str:
    """Returns the address of the page, with a slash at its end. Raises ConfigError if it is not an
    origin and perhaps a path."""
    scheme, _, rest = text.partition("://")
    host, _, path = rest.partition("/")
    is_plain = text.isprintable() and len(text) <= MAX_ADDRESS and not set(path) & set("?#")
    if not is_plain or not is_origin(f"{scheme}://{host}"):
        raise ConfigError(
            f"{text[:80]!r} is not the address of a page, such as https://example.org/calc"
        )
    return text.rstrip("/") + "/"


def with_address(html: str, address: str) -> str:
    """Returns the page, or one for the preview of a link, with the full address of its picture:
    most programs that show a preview need it. `address` is that of the page."""
    full = f'content="{escape(address)}static/'
    return re.sub(r'content="(?:static/)?([\w-]+\.png")', lambda found: full + found[1], html)


def with_policy(html: str) -> str:
    """Returns the page with its Content-Security-Policy, for a host that sends none."""
    encoding = '    <meta charset="utf-8">\n'
    policy = f'    <meta http-equiv="Content-Security-Policy" content="{PAGE_POLICY}">\n'
    return html.replace(encoding, encoding + policy, 1)


def modules_of(static: Path, scripts: Sequence[str], pattern: str = IMPORT) -> list[Path]:
    """Returns these scripts and the modules that they import, which are in the folder `static`:
    each after those that it imports."""
    seen: set[Path] = set()

    def below(module: Path) -> Iterator[Path]:
        if module not in seen:
            seen.add(module)
            for found in re.finditer(pattern, module.read_text("utf-8"), re.M):
                yield from below((module.parent / found["name"]).resolve())
            yield module

    return [module for script in scripts for module in below((static / script).resolve())]


def with_modules(html: str, static: Path) -> str:
    """Returns the page with a list of its modules. Without the list, a browser finds them level by
    level."""
    modules = modules_of(static, (*SCRIPTS, WORKER))
    names = [f"static/{module.relative_to(static.resolve()).as_posix()}" for module in modules]
    links = [PRELOAD, *(f'    <link rel="modulepreload" href="{name}">\n' for name in names)]
    script = '    <script type="module"'  # the first such tag
    return html.replace(script, "".join(links) + script, 1)
