"""Draws a training from its log: how many ranks took part, and how the loss fell.

usage: picture.py LOG SVG    (LOG as `ronde logs JOB --timestamps` writes it)

A small picture goes to the terminal, the same as SVG into a file. Needs nothing but Python.
"""

import re
import sys
from datetime import datetime

LINE = re.compile(r"(?P<time>\S+Z) \[(?P<rank>\d+)\]<stdout>:Step #(?P<step>\d+) +Loss: (?P<loss>[0-9.e+-]+)")
COLUMNS = 60
BARS = " ▁▂▃▄▅▆▇█"
WIDTH, HEIGHT, MARGIN = 720, 150, 40


def read(path):
    """What every rank said at every step: (seconds since the first line, rank, step, loss)."""
    said = []
    with open(path, encoding="utf-8", errors="replace") as log:
        for line in log:
            found = LINE.match(line)
            if found:
                text = found["time"][:26].rstrip("Z")
                said.append((datetime.fromisoformat(text), int(found["rank"]), int(found["step"]), float(found["loss"])))
    if not said:
        sys.exit(f"picture: there is no step in `{path}`")
    said.sort()
    start = said[0][0]
    return [((time - start).total_seconds(), rank, step, loss) for time, rank, step, loss in said]


def columns(said):
    """The log in equal pieces of time: (ranks, loss) of each; a piece in which nobody spoke has none."""
    end = said[-1][0] or 1.0
    pieces = [[] for _ in range(COLUMNS)]
    for entry in said:
        pieces[min(int(entry[0] / end * COLUMNS), COLUMNS - 1)].append(entry)
    found = []
    for piece in pieces:
        ranks = len({rank for _, rank, _, _ in piece})
        losses = [loss for _, _, _, loss in piece]
        found.append((ranks, sum(losses) / len(losses) if losses else None))
    return found, end


def bars(values, top):
    """A line of blocks; gaps stay gaps."""
    line = ""
    for value in values:
        level = 0 if not value or top <= 0 else max(1, round(value / top * (len(BARS) - 1)))
        line += BARS[min(level, len(BARS) - 1)]
    return line


def terminal(pieces, end, said):
    ranks = [piece[0] for piece in pieces]
    losses = [piece[1] for piece in pieces]
    top = max(loss for loss in losses if loss is not None)
    print(f"  ranks {max(ranks):>6} |{bars(ranks, max(ranks))}|")
    print(f"  loss  {top:>6.3f} |{bars(losses, top)}|")
    print(f"               0 s{'':<{COLUMNS - 10}}{end:>5.0f} s")
    first, last = said[0], said[-1]
    print(f"  step {first[2]} → {last[2]}, loss {first[3]:.4f} → {last[3]:.4f}")


def points(pieces, pick, top):
    """The corners of a line in the picture; where nobody spoke the line goes straight on."""
    step = (WIDTH - 2 * MARGIN) / COLUMNS
    for number, piece in enumerate(pieces):
        if pick(piece):
            yield f"{MARGIN + (number + 0.5) * step:.1f},{HEIGHT - 20 - pick(piece) / top * (HEIGHT - 50):.1f}"


def svg(pieces, end, path):
    charts = (("ranks", lambda piece: piece[0], "#2b6cb0"), ("loss", lambda piece: piece[1], "#c05621"))
    parts = []
    for number, (name, pick, colour) in enumerate(charts):
        top = max(pick(piece) for piece in pieces if pick(piece))
        line = " ".join(points(pieces, pick, top))
        parts.append(
            f'<g transform="translate(0,{number * HEIGHT})" font-family="sans-serif" font-size="12">'
            f'<text x="{MARGIN}" y="18">{name} (at most {top:.4g})</text>'
            f'<line x1="{MARGIN}" y1="{HEIGHT - 20}" x2="{WIDTH - MARGIN}" y2="{HEIGHT - 20}" stroke="#999"/>'
            f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{line}"/>'
            f'<text x="{WIDTH - MARGIN}" y="{HEIGHT - 5}" text-anchor="end">{end:.0f} s</text></g>'
        )
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT * len(charts)}">')
        file.write('<rect width="100%" height="100%" fill="white"/>' + "".join(parts) + "</svg>\n")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    said = read(sys.argv[1])
    pieces, end = columns(said)
    terminal(pieces, end, said)
    svg(pieces, end, sys.argv[2])


main()
