"""The modules of the page as one file, those that it imports later as another, those of the worker
that runs the models as a third, and the style sheets as one, for pages on slow connections.

Each module becomes a function that returns what it exports. The files of the page and of the worker
both have the modules that they share: so they load side by side, and none waits for another.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from calcgpt.inference.browser import IMPORT, PRELOAD, SCRIPTS, WORKER, modules_of

BUNDLE, REST, ENGINE = "page.js", "later.js", "engine.js"
STYLES = "page.css"
COMMENT = r"^[ \t]*(?://[^\n]*\n|/\*(?:(?!\*/).)*\*/[ \t]*\n?)"  # one that begins a line
AT_END = r"""[ \t]+// [^\n"'`]*$"""  # one at the end of a line
EXPORT = r"^export ((?:async )?(?:function\*?|class|const) )(\w+|[\[{][\w, ]+[\]}])"
THE_WORKER = f'new URL("./{Path(WORKER).name}", import.meta.url)'
ANY_IMPORT = r'(?:^import [^"]+? from |^export \* from |await import\()"(?P<name>\.[^"]+)"'
LATER = r'await import\("(\.[^"]+)"\)'
EARLY = '<script src="static/early.js"'
SCRIPT = r'    <script type="module" src="static/([^"]+)"></script>\n'
STYLE = r'    <link rel="stylesheet" href="static/([^"]+)">\n'


def bundle(html: str, static: Path, weights: str) -> str:
    """Replaces the modules and the style sheets in the folder `static` by the bundles. Returns the
    page with these, and with the addresses of the worker and the weights that early.js may load."""
    static = static.resolve()
    pages = modules_of(static, SCRIPTS, ANY_IMPORT)
    workers = modules_of(static, [WORKER])
    first = modules_of(static, SCRIPTS)
    later = [module for module in pages if module not in first]
    page, rest, engine = (
        "".join(_wrapped(module, static) for module in modules)
        for modules in (first, later, workers)
    )
    names, all_names = (
        f"{{ {', '.join(_variable(module, static) for module in modules)} }}"
        for modules in (first, pages)
    )
    styles = "".join((static / name).read_text("utf-8") for name in re.findall(STYLE, html))
    bundled = {*pages, *workers, *(static / name for name in re.findall(STYLE, html))}
    for file in bundled:
        file.unlink()
    for folder in {file.parent for file in bundled}:
        if not any(folder.iterdir()):
            folder.rmdir()
    page = page.replace(THE_WORKER, f'new URL("./{ENGINE}", import.meta.url)')
    (static / BUNDLE).write_text(f"{page}export {names};\n")
    (static / REST).write_text(f'import {names} from "./{BUNDLE}";\n{rest}export {all_names};\n')
    (static / ENGINE).write_text(engine)
    (static / STYLES).write_text(re.sub(COMMENT, "", styles, flags=re.M | re.S))
    head = f'{PRELOAD}    <script type="module" src="static/{BUNDLE}"></script>\n'
    head += f'    <link rel="stylesheet" href="static/{STYLES}">\n'
    early = f'{EARLY} data-weights="{escape(weights)}" data-engine="static/{ENGINE}"'
    html = html.replace(EARLY, early)
    above, below = re.split(STYLE, html, maxsplit=1)[::2]
    return above + head + re.sub(f"{STYLE}|{SCRIPT}", "", below)


def _wrapped(module: Path, static: Path) -> str:
    """Returns a module as a function that is called at once."""
    text = re.sub(COMMENT, "", module.read_text("utf-8"), flags=re.M | re.S)
    text = re.sub(AT_END, "", text, flags=re.M)
    names = [name.strip("[{ }]") for _, name in re.findall(EXPORT, text, re.M)]
    if "export default " in text:
        names.append("default: exported")

    def variable(name: str) -> str:
        return _variable((module.parent / name).resolve(), static)

    text = re.sub(LATER, lambda m: f'(await import("./{REST}")).{variable(m[1])}', text)
    imported = re.findall(IMPORT, text, re.M | re.S)
    imports = "".join(
        f"const {_pattern(clause)} = {variable(name)};\n" for clause, name in imported if clause
    )
    names += [f"...{variable(name)}" for clause, name in imported if not clause]
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
