"""Copies everything that the documentation site shows into FOLDER/pages, and makes the links between pages fit.

    stage.py FOLDER

Pages link to each other as files of the repository, so that they work wherever the repository is shown. On the site
they are pages; a source file that a page links to becomes a page with its text.
"""

import re
import shutil
import sys
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath

ROOT = Path(__file__).resolve().parents[2]
# Pages that are not below docs/, and what they are called on the site.
ELSEWHERE = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "charts/horovod/README.md": "chart.md",
    "e2e/conformance/known-differences.md": "known-differences.md",
}
LANGUAGES = {".py": "python", ".rs": "rust", ".sh": "bash", ".yaml": "yaml"}
LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)]*)?\))")
IMAGES = {".svg", ".png"}


def main(folder: Path) -> None:
    """Writes all pages and what they link to."""
    pages = dict(ELSEWHERE)
    for path in sorted((ROOT / "docs").rglob("*")):
        if path.is_file():
            name = path.relative_to(ROOT).as_posix()
            pages[name] = name.removeprefix("docs/").replace("decisions/README.md", "decisions/index.md")
    sources: dict[str, str] = {}
    for source, page in pages.items():
        target = folder / page
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix == ".md":
            target.write_text(relink((ROOT / source).read_text(), source, page, pages, sources))
        else:
            shutil.copyfile(ROOT / source, target)
    for source, page in sources.items():
        target = folder / page
        target.parent.mkdir(parents=True, exist_ok=True)
        language, text = LANGUAGES.get(Path(source).suffix, ""), (ROOT / source).read_text()
        target.write_text(f"# {source}\n\n````{language}\n{text}````\n")
    (folder.parent / "mkdocs.yml").write_text(configuration(pages.values()))


def configuration(pages: Collection[str]) -> str:
    """Returns the configuration of the generator with all decisions; every other page must be in it already."""
    text = (ROOT / "tools/docs/mkdocs.yml").read_text()
    index = "      - decisions/index.md\n"
    decisions = sorted(page for page in pages if page.startswith("decisions/0"))
    text = text.replace(index, index + "".join(f"      - {page}\n" for page in decisions))
    missing = [page for page in pages if page.endswith(".md") and not re.search(rf"[: -] {page}$", text, re.MULTILINE)]
    if missing:
        raise SystemExit(f"error: tools/docs/mkdocs.yml does not list {', '.join(missing)}")
    return text


def relink(text: str, source: str, page: str, pages: dict[str, str], sources: dict[str, str]) -> str:
    """Returns a page with its links as they are on the site."""

    def link(match: re.Match[str]) -> str:
        target = match[2]
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        wanted = normpath(str(PurePosixPath(source).parent / target))
        if wanted == "docs/decisions":
            wanted += "/README.md"
        if (ROOT / wanted).is_dir():
            raise SystemExit(f"error: {source} links to the folder {target}: link to a file in it")
        place = pages.get(wanted) or sources.setdefault(wanted, f"files/{wanted}.md")
        return f"{match[1]}{relpath(place, str(PurePosixPath(page).parent))}{match[3]}"

    return "".join(
        # A fence keeps its text as it is.
        part if at % 2 else LINK.sub(link, part)
        for at, part in enumerate(re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL))
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]) / "pages")
