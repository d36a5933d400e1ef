"""Write the reference pages below docs/reference, or say which of them are out of date.

python tools/write_reference.py            write them
python tools/write_reference.py --check    exit with 1 if one differs, and name it
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from reference_docs import FOLDER, reference_pages


def stale(pages: dict[str, str]) -> list[str]:
    """Return the pages that differ from the committed ones, and those that no code makes."""
    found = [
        name
        for name, text in pages.items()
        if not (FOLDER / name).exists() or (FOLDER / name).read_text(encoding="utf-8") != text
    ]
    there = {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.md")}
    return sorted({*found, *(there - set(pages) - {"README.md"})})


def main() -> int:
    """Write, or check."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="Change nothing.")
    checked = parser.parse_args().check
    pages = reference_pages()
    for name in stale(pages):
        print(f"docs/reference/{name}")
        if checked:
            continue
        path = FOLDER / name
        if name not in pages:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(pages[name], encoding="utf-8")
    return 1 if checked and stale(pages) else 0


if __name__ == "__main__":
    raise SystemExit(main())
