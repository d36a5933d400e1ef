"""Hooks of the site build (mkdocs.yml): what GitHub resolves and a folder of pages would not.

Pages link to files beside ``docs`` (examples, facts, code) and to folders. The files that are
linked are put into the site as they are; a folder's link leads to its README.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"(\[[^\]]*\]\()([^)\s]+)(\))")
_ELSEWHERE = ("http://", "https://", "mailto:", "#")
_KEPT = "repository"
"""Folder of the site for files of the repository that lie outside ``docs``."""


def on_config(config: Any) -> Any:
    """Replace folders in the navigation by their pages."""
    named = {entry for entry in _leaves(config.nav) if not entry.endswith("/")}
    config.nav = [_expanded(entry, Path(config.docs_dir), named) for entry in config.nav]
    return config


def _leaves(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
        return
    for below in entry.values() if isinstance(entry, dict) else entry:
        yield from _leaves(below)


def _expanded(entry: Any, docs: Path, named: set[str]) -> Any:
    if isinstance(entry, dict):
        return {title: _expanded(below, docs, named) for title, below in entry.items()}
    if isinstance(entry, list):
        found = [(one, _expanded(one, docs, named)) for one in entry]
        nested = ([new] if isinstance(old, dict) or new == old else new for old, new in found)
        return [each for part in nested for each in part]
    return _pages_of(docs, entry, named) if entry.endswith("/") else entry


def _pages_of(docs: Path, folder: str, named: set[str]) -> list[str]:
    """Return a folder's pages that are not named, in the order of its README."""
    prefix = folder.removeprefix("./")
    names = sorted(path.name for path in (docs / folder).glob("*.md"))
    readme = (docs / folder / "README.md").read_text(encoding="utf-8")
    links = (link.partition("#")[0] for _, link, _ in _LINK.findall(readme))
    listed = [link for link in links if link in names]
    order = dict.fromkeys(["README.md", *listed, *names])
    return [f"{prefix}{name}" for name in order if f"{prefix}{name}" not in named]


def on_files(files: Files, *, config: Any) -> Files:
    """Add the files of the repository that pages link to, and a page for folders without one."""
    for path in sorted(Path(config.docs_dir).rglob("*.md")):
        base = path.parent.relative_to(config.docs_dir).as_posix()
        for _, link, _ in _LINK.findall(path.read_text(encoding="utf-8")):
            for file in _missing(files, config, base, link):
                files.append(file)
    return files


def _missing(files: Files, config: Any, base: str, link: str) -> Iterator[File]:
    """Yield what a link of a page in the folder ``base`` needs and the site has not got."""
    source = _outside(base, link)
    if source is not None:
        name, path = _in_site(source), ROOT / source
    elif not link.startswith(_ELSEWHERE) and (ROOT / "docs" / base / link).is_dir():
        name = posixpath.normpath(posixpath.join(base, link, "README.md"))
        path = ROOT / "docs" / name
    else:
        return
    if files.get_file_from_path(name) is not None:
        return
    if path.exists():
        yield File.generated(config, name, abs_src_path=str(path))
    else:
        listed = _listing(path.parent)
        yield File.generated(config, name, content=listed, inclusion=InclusionLevel.NOT_IN_NAV)


def _listing(folder: Path) -> str:
    """Return a page that lists a folder's files."""
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    return "\n".join([f"# {folder.name}", "", *(f"- [{name}]({name})" for name in names), ""])


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:  # noqa: ARG001 - mkdocs calls by name
    """Lead links to folders and out of ``docs`` to where the site has them."""
    base = posixpath.dirname(page.file.src_uri)
    return "".join(_rewritten(markdown, base))


def _rewritten(markdown: str, base: str) -> Iterator[str]:
    end = 0
    for found in _LINK.finditer(markdown):
        yield markdown[end : found.start()]
        end = found.end()
        link = _led(base, found[2])
        yield f"{found[1]}{link}{found[3]}"
    yield markdown[end:]


def _led(base: str, link: str) -> str:
    """Return where a link of a page in the folder ``base`` leads in the site."""
    source = _outside(base, link)
    if source is not None:
        return posixpath.relpath(_in_site(source), base or ".")
    if link.startswith(_ELSEWHERE):
        return link
    if (ROOT / "docs" / base / link).is_dir():
        return posixpath.join(link, "README.md")
    return link


def _outside(base: str, link: str) -> str | None:
    """Return the file of the repository that a link out of ``docs`` names, or None."""
    if link.startswith(_ELSEWHERE):
        return None
    path = posixpath.normpath(posixpath.join("docs", base, link.partition("#")[0]))
    if path == "docs" or path.startswith("docs/"):
        return None
    if (ROOT / path).is_dir():
        path = posixpath.join(path, "README.md")
    return path


def _in_site(source: str) -> str:
    # Shown as it is: as a page its own links would have to lead somewhere too.
    name = f"{source}.txt" if source.endswith(".md") else source
    return posixpath.join(_KEPT, name)
