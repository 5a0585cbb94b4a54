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


def plateaus(pieces):
    """How many ranks there were: (number, first column, column after the last); a silent piece is as the one before."""
    found = []
    for column, (ranks, _) in enumerate(pieces):
        if found and ranks in (0, found[-1][0]):
            found[-1][2] = column + 1
        else:
            found.append([ranks, column, column + 1])
    return found


def place(column):
    """Where a column begins in the picture."""
    return MARGIN + column * (WIDTH - 2 * MARGIN) / COLUMNS


def ranks_chart(pieces):
    """Steps, with the number of ranks above each."""
    steps = plateaus(pieces)
    top = max(step[0] for step in steps)
    parts = []
    for ranks, first, after in steps:
        height = ranks / top * (HEIGHT - 60)
        x, y, width = place(first), HEIGHT - 20 - height, place(after) - place(first)
        parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="#3b82f6"/>')
        parts.append(f'<text x="{x + width / 2:.1f}" y="{y - 6:.1f}" text-anchor="middle">{ranks}</text>')
    return f'<g shape-rendering="crispEdges">{"".join(parts)}</g>'


def loss_chart(pieces):
    """A line; where nobody spoke it goes straight on."""
    top = max(loss for _, loss in pieces if loss is not None)
    heights = [(column, loss / top * (HEIGHT - 60)) for column, (_, loss) in enumerate(pieces) if loss is not None]
    points = " ".join(f"{place(column + 0.5):.1f},{HEIGHT - 20 - height:.1f}" for column, height in heights)
    return f'<polyline fill="none" stroke="#f97316" stroke-width="2.5" stroke-linejoin="round" points="{points}"/>'


def svg(pieces, end, path):
    charts = (("ranks", ranks_chart(pieces)), ("loss", loss_chart(pieces)))
    parts = [
        f'<g transform="translate(0,{number * HEIGHT})"><text x="{MARGIN}" y="20" font-weight="bold">{name}</text>{chart}'
        f'<line x1="{MARGIN}" y1="{HEIGHT - 20}" x2="{WIDTH - MARGIN}" y2="{HEIGHT - 20}" stroke="#94a3b8"/>'
        f'<text x="{MARGIN}" y="{HEIGHT - 5}">0 s</text>'
        f'<text x="{WIDTH - MARGIN}" y="{HEIGHT - 5}" text-anchor="end">{end:.0f} s</text></g>'
        for number, (name, chart) in enumerate(charts)
    ]
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT * len(charts)}"')
        file.write(' font-family="sans-serif" font-size="13" fill="#1e293b">')
        file.write('<rect width="100%" height="100%" fill="white"/>' + "".join(parts) + "</svg>\n")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    said = read(sys.argv[1])
    pieces, end = columns(said)
    terminal(pieces, end, said)
    svg(pieces, end, sys.argv[2])


main()
