"""Optional libraries, and the command that installs them."""

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from shlex import quote

from calcgpt.base.errors import UserError

# The extra of `calcgpt` that installs a library. Every installation has those that are not here.
EXTRAS = {
    "gguf": "gguf",
    "matplotlib": "lab",
    "mcp": "mcp",
    "numba": "fast",
    "optuna": "ray",
    "ray": "ray",
    "sympy": "train",
    "tokenizers": "text",
    "torch": "train",
    "transformers": "hf",
    "wandb": "wandb",
}
CONSTRAINTS = "constraints.txt"


def is_installed(library: str) -> bool:
    """Whether a library can be imported. Does not import it."""
    if library in sys.modules:  # a stand-in has no `__spec__`
        return sys.modules[library] is not None
    return find_spec(library) is not None


def require(what: str, *libraries: str) -> None:
    """Raises UserError if some of the libraries are missing. The message says that `what` needs
    them, and how to install them. Call this before any work begins."""
    if missing := [library for library in libraries if not is_installed(library)]:
        names = " and ".join(filter(None, (", ".join(missing[:-1]), missing[-1])))
        raise UserError(f"{what} needs {names}: {install_line(*missing)}")


def install_line(*libraries: str) -> str:
    """Returns the command that installs libraries beside this package, in the versions that were
    tested."""
    from importlib.metadata import PackageNotFoundError, distribution  # slow

    extras = ",".join(sorted({EXTRAS[library] for library in libraries if library in EXTRAS}))
    extras = extras and f"[{extras}]"
    try:
        distribution("calcgpt")
        package = quote(f"calcgpt{extras}")
    except PackageNotFoundError:  # a checkout on PYTHONPATH
        package = f"-e {quote(f'{Path(__file__).parents[2]}{extras}')}"
    root = Path(__file__).parents[2]
    known = (root / "calcgpt" / CONSTRAINTS, root / CONSTRAINTS)  # of a wheel, of a checkout
    if constraints := next(filter(Path.is_file, known), None):
        package = f"-c {_short(constraints)} {package}"
    python = Path(sys.executable)
    if (pip := shutil.which("pip")) and Path(pip).parent == python.parent:
        return f"pip install {package}"
    shown = _short(python)
    if is_installed("pip"):
        return f"{shown} -m pip install {package}"
    return f"uv pip install --python {shown} {package}"  # uv makes environments without pip


def _short(path: Path) -> str:
    """Returns a path for a shell, relative to the current folder if it is in there."""
    return quote(os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path))
