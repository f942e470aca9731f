"""Brings the files of the repository that pages link to into the site, a hook of mkdocs.

`[the loop](../../examples/pytorch_loop.py)` works where a page is read in the repository; in the site it leads to a
page with that file. Markdown and notebooks are shown as they are, with what they link to; all else as a listing.
"""

import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

REPOSITORY = Path(__file__).parents[2]
# Where they are in the site.
SHELF = "repository"
LINK = re.compile(r"\]\((?P<path>[^)#:\s]+)(?P<anchor>#[^)\s]*)?\)")
LANGUAGES = {".py": "python", ".yaml": "yaml"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file outside of docs/ that a page links to."""
    waiting = [(f"docs/{page.src_uri}", page.content_string) for page in files.documentation_pages()]
    for path, text in waiting:  # It grows while it is read.
        for found in LINK.finditer(text):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), found["path"]))
            here = REPOSITORY / target
            if target.startswith(("docs/", "..")) or not here.is_file() or files.get_file_from_path(_page_of(target)):
                continue
            if here.suffix in (".png", ".svg"):
                files.append(File.generated(config, f"{SHELF}/{target}", abs_src_path=str(here)))
                continue
            content = _of_notebook(here) if here.suffix == ".ipynb" else here.read_text()
            shown = content if here.suffix in (".md", ".ipynb") else _listing(target, content)
            files.append(File.generated(config, _page_of(target), content=shown))
            if here.suffix == ".md":
                waiting.append((target, content))
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_: Any) -> str:
    """Return the page with links to such files leading to their pages."""
    source = page.file.src_uri
    path = source.removeprefix(f"{SHELF}/") if source.startswith(f"{SHELF}/") else f"docs/{source}"

    def in_the_site(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), found["path"]))
        for place in (target.removeprefix("docs/"), _page_of(target), f"{SHELF}/{target}"):
            if files.get_file_from_path(place):
                relative = posixpath.relpath(place, posixpath.dirname(source) or ".")
                return f"]({relative}{found['anchor'] or ''})"
        return found[0]

    return LINK.sub(in_the_site, markdown)


def _page_of(target: str) -> str:
    return f"{SHELF}/{target}" if target.endswith(".md") else f"{SHELF}/{target}.md"


def _of_notebook(path: Path) -> str:
    """Return the cells of a notebook as Markdown."""
    cells = json.loads(path.read_text())["cells"]
    texts = ("".join(cell["source"]) for cell in cells)
    shown = (
        text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```"
        for cell, text in zip(cells, texts, strict=True)
    )
    return "\n\n".join(shown)


def _listing(target: str, content: str) -> str:
    fence = "~~~~~~"
    return f"# {target}\n\n{fence}{LANGUAGES.get(Path(target).suffix, 'text')}\n{content.rstrip()}\n{fence}\n"
