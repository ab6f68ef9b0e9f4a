"""The modules of the page as one file, those of the worker that runs the models as another, and
the style sheets as one, for pages on slow connections.

Each module becomes a function that returns what it exports. Both files have the modules that the
page and the worker share: so they load side by side, and none waits for a third.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from calcgpt.inference.browser import IMPORT, PRELOAD, SCRIPTS, WORKER, modules_of

BUNDLE, ENGINE = "page.js", "engine.js"
STYLES = "page.css"
COMMENT = r"^[ \t]*(?://[^\n]*\n|/\*(?:(?!\*/).)*\*/[ \t]*\n?)"  # one that begins a line
EXPORT = r"^export ((?:async )?(?:function\*?|class|const) )(\w+|[\[{][\w, ]+[\]}])"
THE_WORKER = f'new URL("./{Path(WORKER).name}", import.meta.url)'
ANY_IMPORT = r'(?:^import [^"]+? from |await import\()"(?P<name>\.[^"]+)"'
LATER = r'await import\("(\.[^"]+)"\)'  # also these are in the file
EARLY = '<script src="static/early.js"'
SCRIPT = r'    <script type="module" src="static/([^"]+)"></script>\n'
STYLE = r'    <link rel="stylesheet" href="static/([^"]+)">\n'


def bundle(html: str, static: Path, weights: str) -> str:
    """Replaces the modules and the style sheets in the folder `static` by the bundles. Returns the
    page with these, and with the addresses of the worker and the weights that early.js may load."""
    static = static.resolve()
    pages = modules_of(static, SCRIPTS, ANY_IMPORT)
    workers = modules_of(static, [WORKER])
    page, engine = (
        "".join(_wrapped(module, static) for module in modules) for modules in (pages, workers)
    )
    styles = "".join((static / name).read_text("utf-8") for name in re.findall(STYLE, html))
    bundled = {*pages, *workers, *(static / name for name in re.findall(STYLE, html))}
    for file in bundled:
        file.unlink()
    for folder in {file.parent for file in bundled}:
        if not any(folder.iterdir()):
            folder.rmdir()
    (static / BUNDLE).write_text(
        page.replace(THE_WORKER, f'new URL("./{ENGINE}", import.meta.url)')
    )
    (static / ENGINE).write_text(engine)
    (static / STYLES).write_text(re.sub(COMMENT, "", styles, flags=re.M | re.S))
    head = f'{PRELOAD}    <script type="module" src="static/{BUNDLE}"></script>\n'
    head += f'    <link rel="stylesheet" href="static/{STYLES}">\n'
    early = f'{EARLY} data-weights="{escape(weights)}" data-engine="static/{ENGINE}"'
    html = html.replace(EARLY, early)
    first, rest = re.split(STYLE, html, maxsplit=1)[::2]
    return first + head + re.sub(f"{STYLE}|{SCRIPT}", "", rest)


def _wrapped(module: Path, static: Path) -> str:
    """Returns a module as a function that is called at once."""
    text = re.sub(COMMENT, "", module.read_text("utf-8"), flags=re.M | re.S)
    names = [name.strip("[{ }]") for _, name in re.findall(EXPORT, text, re.M)]
    if "export default " in text:
        names.append("default: exported")

    def variable(name: str) -> str:
        return _variable((module.parent / name).resolve(), static)

    text = re.sub(LATER, lambda match: variable(match[1]), text)
    imports = "".join(
        f"const {_pattern(clause)} = {variable(name)};\n"
        for clause, name in re.findall(IMPORT, text, re.M | re.S)
    )
    body = re.sub(EXPORT, r"\1\2", re.sub(IMPORT, "", text, flags=re.M | re.S), flags=re.M)
    body = re.sub(r"^export default ", "const exported = ", body, flags=re.M)
    exported = f"return {{ {', '.join(names)} }};\n"
    return f"const {_variable(module, static)} = (() => {{\n{imports}{body}{exported}}})();\n"


def _pattern(clause: str) -> str:
    """Returns what is imported as the left side of an assignment."""
    if clause.startswith("{"):
        return re.sub(r" as ", ": ", clause)
    return clause.removeprefix("* as ") if clause.startswith("*") else f"{{ default: {clause} }}"


def _variable(module: Path, static: Path) -> str:
    return "$" + re.sub(r"\W", "_", module.relative_to(static).with_suffix("").as_posix())
