#!/usr/bin/env python3
"""Makes the SVG of each drawing in docs from the text beside it. Needs Python alone; the build does not need it.

    scripts/draw.py docs/drawings           writes NAME.svg beside each NAME.txt in there
    scripts/draw.py --check docs/drawings   says which SVG is not what its text gives, and fails if one is

A text has one thing a line, and goes on in lines that are indented; lengths are in units of ten pixels,
from the top left. | begins a new line of a label.

    size WIDTH HEIGHT
    room X Y WIDTH HEIGHT LABEL           a frame with its name in the corner
    box NAME X Y WIDTH HEIGHT LABEL       a box that arrows can name
    arrow FROM TO LABEL                   from border to border, straight; LABEL may be left out
    back FROM TO LABEL                    the same, dashed: what is seen, or signalled, without a call
    note X Y LABEL
"""
import glob
import html
import os
import re
import sys

UNIT, LINE = 10, 15


def lines(x, y, label, anchor, size=12):
    rows = label.split('|')
    top = y - (len(rows) - 1) * LINE / 2 + size / 3
    return ''.join(f'<text x="{x:g}" y="{top + i * LINE:g}" text-anchor="{anchor}" font-size="{size}">'
                   f'{html.escape(row.strip())}</text>\n' for i, row in enumerate(rows))


def border(box, toward):
    """Where the line from the middle of a box toward a point leaves it."""
    x, y, w, h = box
    mx, my = x + w / 2, y + h / 2
    dx, dy = toward[0] - mx, toward[1] - my
    scale = min(w / 2 / abs(dx) if dx else 1e9, h / 2 / abs(dy) if dy else 1e9)
    return mx + dx * scale, my + dy * scale


def middle(box):
    return box[0] + box[2] / 2, box[1] + box[3] / 2


def facing(a, b):
    """The two points an arrow is aimed at: straight up or across where the boxes face each other."""
    (ax, ay), (bx, by) = middle(a), middle(b)
    low, high = max(a[0], b[0]), min(a[0] + a[2], b[0] + b[2])
    if high - low > 20:
        x = (low + high) / 2
        return (x, ay), (x, by)
    low, high = max(a[1], b[1]), min(a[1] + a[3], b[1] + b[3])
    if high - low > 10:
        y = (low + high) / 2
        return (ax, y), (bx, y)
    return (ax, ay), (bx, by)


def arrow(a, b, label, dashed):
    start, end = facing(a, b)
    if start[0] == end[0]:
        down = end[1] > start[1]
        start, end = (start[0], a[1] + a[3] if down else a[1]), (end[0], b[1] if down else b[1] + b[3])
    elif start[1] == end[1]:
        right = end[0] > start[0]
        start, end = (a[0] + a[2] if right else a[0], start[1]), (b[0] if right else b[0] + b[2], end[1])
    else:
        start, end = border(a, end), border(b, start)
    style = ' stroke-dasharray="5 4"' if dashed else ''
    out = (f'<line x1="{start[0]:g}" y1="{start[1]:g}" x2="{end[0]:g}" y2="{end[1]:g}" stroke="#444"'
           f'{style} marker-end="url(#head)"/>\n')
    if label:
        x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
        upright = abs(start[0] - end[0]) < abs(start[1] - end[1])
        out += lines(x + 5, y, label, 'start', 11) if upright else lines(x, y - 9, label, 'middle', 11)
    return out


def draw(source):
    boxes, rooms, under, over = {}, '', '', ''
    width = height = 0
    for number, line in enumerate(re.sub(r'\n[ \t]+', ' ', source).splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith('#'):
            continue
        kind = words[0]
        try:
            if kind == 'size':
                width, height = (float(w) * UNIT for w in words[1:3])
            elif kind == 'room':
                x, y, w, h = (float(v) * UNIT for v in words[1:5])
                rooms += (f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" fill="#f4f1ea" stroke="#bbb" '
                          'rx="4"/>\n')
                label = ' '.join(words[5:])
                rooms += lines(x + 6, y + 11 + label.count('|') * LINE / 2, label, 'start', 12)
            elif kind == 'box':
                x, y, w, h = (float(v) * UNIT for v in words[2:6])
                boxes[words[1]] = x, y, w, h
                over += f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" fill="#fff" stroke="#444" rx="3"/>\n'
                over += lines(x + w / 2, y + h / 2, ' '.join(words[6:]), 'middle')
            elif kind in ('arrow', 'back'):
                under += arrow(boxes[words[1]], boxes[words[2]], ' '.join(words[3:]), kind == 'back')
            elif kind == 'note':
                over += lines(float(words[1]) * UNIT, float(words[2]) * UNIT, ' '.join(words[3:]), 'start', 11)
            else:
                raise ValueError(f'unknown word {kind!r}')
        except (KeyError, ValueError, IndexError) as error:
            sys.exit(f'line {number}: {line!r}: {error}')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
            f'height="{height:g}" font-family="sans-serif">\n<defs><marker id="head" viewBox="0 0 8 8" '
            f'refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" '
            f'fill="#444"/></marker></defs>\n'
            f'<rect width="100%" height="100%" fill="#fff"/>\n{rooms}{under}{over}</svg>\n')


def main():
    check = sys.argv[1:2] == ['--check']
    if len(sys.argv) != 2 + check:
        sys.exit(__doc__)
    names = sorted(glob.glob(os.path.join(sys.argv[-1], '*.txt')))
    if not names:
        sys.exit(f'{sys.argv[-1]}: no drawings')
    stale = []
    for name in names:
        target = name.removesuffix('.txt') + '.svg'
        with open(name, encoding='utf-8') as file:
            svg = draw(file.read())
        if not check:
            with open(target, 'w', encoding='utf-8') as file:
                file.write(svg)
            continue
        try:
            with open(target, encoding='utf-8') as file:
                same = file.read() == svg
        except FileNotFoundError:
            same = False
        if not same:
            stale.append(target)
    if stale:
        sys.exit('not what their text gives: ' + ' '.join(stale))


main()
