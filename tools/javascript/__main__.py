"""Writes what the page has from Python: `python -m tools.javascript`."""

from tools.javascript import operations, tables
from tools.javascript.expressions import TRANSLATED
from tools.javascript.modules import Module
from tools.javascript.names import ENGINE


def files() -> dict[str, str]:
    """Returns the generated files, by their names."""
    modules = {
        f"{name}.js": Module(f"calcgpt.inference.{name}").javascript() for name in TRANSLATED
    }
    return {
        "tables.js": tables.javascript(),
        "operations.js": operations.javascript(),
        **modules,
    }


if __name__ == "__main__":
    for name, text in files().items():
        (ENGINE / name).write_text(text, "utf-8")
