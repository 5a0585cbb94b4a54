"""Makes the search of the built site work from files: browsers refuse workers there.

    offline.py SITE

The generator fetches a script for that from the network. Ours, `worker.js`, takes its place.
"""

import sys
from pathlib import Path

FETCHED = "https://unpkg.com/iframe-worker/shim"


def main(site: Path) -> None:
    """Puts our script in the place of the fetched one, in every page."""
    script = "assets/worker.js"
    (site / script).write_text((Path(__file__).parent / "worker.js").read_text())
    for page in site.rglob("*.html"):
        text = page.read_text()
        if FETCHED not in text:
            raise SystemExit(f"error: {page} does not load {FETCHED} any more: see tools/docs/offline.py")
        up = "../" * (len(page.relative_to(site).parts) - 1)
        page.write_text(text.replace(FETCHED, up + script))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
