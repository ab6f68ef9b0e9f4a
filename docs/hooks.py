"""What `make docs` adds to the site: the pages of the repository's root, and links to files.

A link from a page to a file that is not part of the site, such as a recipe, becomes the path of the
file in the repository.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}
LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s:]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages of the root."""
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Points links to other pages of the site, or names the file."""
    names = {page: name for name, page in PAGES.items()}
    uri = page.file.src_uri
    source = PurePosixPath(names.get(uri, f"docs/{uri}"))  # in the repository

    def link(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        path = normpath(source.parent / target)
        inside = PAGES.get(path, path.removeprefix("docs/"))
        if files.get_file_from_path(inside):
            depth = "../" * (len(PurePosixPath(uri).parts) - 1)
            return f"[{text}]({depth}{inside}{anchor})"
        if not (ROOT / path).exists():
            return match[0]  # which the strict build refuses
        return text if path in text else f"{text} (`{path}`)"

    return LINK.sub(link, markdown)


def on_post_build(config: MkDocsConfig, **_: Any) -> None:
    """Refuses a site that loads something from another host."""
    loaded = re.compile(r"""<(?:script|img|link)[^>]+(?:src|href)=["']?(?:https?:)?//[^"'\s>]+""")
    for page in Path(config.site_dir).rglob("*.html"):
        if found := loaded.search(page.read_text("utf-8")):
            raise SystemExit(f"{page} loads from another host: {found[0]}")
