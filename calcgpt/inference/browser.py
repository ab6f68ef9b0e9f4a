"""What the browser needs: a checkpoint as one file for its engine (`api/static/engine`), and the
page with its own address and the list of its modules.

The file has the format of safetensors. Its metadata has a manifest in JSON: what the engine needs
to know about the model besides its weights.
"""

import json
import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import ConfigError, DataError
from calcgpt.inference.cases.network import unsupported_part
from calcgpt.inference.questions import describe_task, is_of_task
from datagen.coordinates import rotary_frequencies

# The page assembles WebAssembly, the products of its engine (static/engine/memory.js).
PAGE_POLICY = (
    "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; base-uri 'none'; form-action 'none'"
)
MAX_ADDRESS = 2_000
SCRIPTS = ("backend.js", "calculator.js")  # the modules that the page names, in their order
WORKER = "engine/worker.js"  # the module that runs the models
IMPORT = r'^import (?P<names>[^"]+?) from "(?P<name>\.[^"]+)";\n'
PRELOAD = '    <link rel="preload" as="fetch" crossorigin href="static/backend.json">\n'
PREVIEW = "static/preview.png"  # what a link to the page shows, beside the page
# Links to a model with parts switched off lead through a page with another picture: no server sees
# the hash of an address.
OFF, OFF_PREVIEW = "static/off.html", "off.png"
SCALE = ".scale"
SCORES = ("n", "char_accuracy", "exact_match", "by_operation")


def manifest_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """Returns what the engine needs to know of a model besides its weights, as JSON values.

    Raises ConfigError if the engine cannot run it, and DataError if it was trained neither on
    arithmetic nor on a task.
    """
    config, tokenizer = checkpoint.recipe.model, checkpoint.tokenizer
    if part := unsupported_part(config):
        raise ConfigError(f"the engine in the browser does not support {part}")
    of_task = is_of_task(checkpoint)
    if not (of_task or tokenizer.is_notation()):
        raise DataError(
            f"{checkpoint.name} predicts text: the page needs a model of arithmetic or of a task"
        )
    model = config.model_dump() | {
        "n_kv_head": config.kv_heads,
        "head_dim": config.head_dim,
        "gated": config.gated,
    }
    return {
        "name": checkpoint.name,
        "description": checkpoint.recipe.description,
        "parameters": checkpoint.n_parameters,
        "metrics": scores_on_test(checkpoint),
        "vocabulary": json.loads(tokenizer.to_json())["vocabulary"],
        "has_work": checkpoint.recipe.has_work,
        "domain": checkpoint.domain.model_dump() if checkpoint.domain else None,
        "task": describe_task(checkpoint) if of_task else None,
        "model": model,
        "frequencies": rotary_frequencies(config.head_dim).tolist()
        if config.position == "coordinates"
        else [],
    }


def scores_on_test(checkpoint: Checkpoint) -> dict[str, Any] | None:
    """Returns the main scores of a checkpoint on test problems; None if it was not scored."""
    scores = checkpoint.metrics.get("test")
    return {name: scores[name] for name in SCORES if name in scores} if scores else None


def weights_file(checkpoint: Checkpoint, bits: int = 16) -> bytes:
    """Returns the file, with the weights of `cast_weights`, and with the map of the model's
    switches in its manifest, if there is one.

    Raises what `manifest_of` raises.
    """
    switches = checkpoint.switches.model_dump() if checkpoint.switches else None
    manifest = json.dumps(manifest_of(checkpoint) | {"switches": switches}, ensure_ascii=False)
    return save(cast_weights(checkpoint, bits), {"manifest": manifest})


def fits_half(checkpoint: Checkpoint) -> bool:
    """Returns whether no weight is too large for a number of 16 bits."""
    largest = np.finfo(np.float16).max
    return all(bool(np.all(np.abs(array) <= largest)) for array in checkpoint.arrays.values())


def cast_weights(checkpoint: Checkpoint, bits: int) -> dict[str, NDArray[Any]]:
    """Returns the weights by name, with numbers of 8, 16 or 32 bits.

    With 8, each row of a matrix is whole numbers times its scale in `NAME.scale`, and all else has
    32. With 16, all have 32 if one of them does not fit.
    """
    if bits == 8:
        return dict(_scaled(checkpoint))
    dtype = np.float16 if bits == 16 and fits_half(checkpoint) else np.float32
    return {name: array.astype(dtype) for name, array in checkpoint.arrays.items()}


def _scaled(checkpoint: Checkpoint) -> Iterator[tuple[str, NDArray[Any]]]:
    for name, array in checkpoint.arrays.items():
        if array.ndim != 2:
            yield name, array.astype(np.float32)
            continue
        scale = (np.abs(array).max(axis=1) / np.iinfo(np.int8).max).astype(np.float32)
        scale[scale == 0] = 1
        yield name, np.rint(array / scale[:, None]).astype(np.int8)
        yield name + SCALE, scale


def widened(weights: dict[str, NDArray[Any]]) -> dict[str, NDArray[np.float32]]:
    """Returns the weights of `cast_weights` as the engine reads them, with 32 bits."""
    wide = {name: array.astype(np.float32) for name, array in weights.items()}
    scales = {name: wide.pop(name) for name in weights if name.endswith(SCALE)}
    for name, scale in scales.items():
        wide[name.removesuffix(SCALE)] *= scale[:, None]
    return wide


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
    """Returns the page, or that of OFF, with the full address of its preview: most programs that
    show a preview of a link need it. `address` is that of the page."""
    for picture in (PREVIEW, OFF_PREVIEW):
        full = f"{escape(address)}static/{picture.removeprefix('static/')}"
        html = html.replace(f'"{picture}"', f'"{full}"')
    return html


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
