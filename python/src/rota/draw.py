"""Pictures for notebooks. A plan: its commands by level, and what memory is live while they run in record order. A run
of it: when its commands ran, and which took longest."""

from html import escape

from ._rota import Plan, Ticket
from .errors import Error

WIDTH, ROW, LABEL, GRAPH_HEIGHT, ROWS_MAX, NAMES_MAX = 880, 18, 64, 110, 40, 6


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return ""


def _levels(plan: Plan) -> list[tuple[str, list[str]]]:
    """Names of the commands of each level: a batch of a segment, whose commands have no order among them."""
    levels: dict[tuple[int, int], list[str]] = {}
    for command in plan.commands():
        levels.setdefault((command["segment"], command["batch"]), []).append(command["name"])
    return [(f"{segment}.{batch}", names) for (segment, batch), names in sorted(levels.items())]


def _text(names: list[str]) -> str:
    shown = ", ".join(names[:NAMES_MAX])
    more = len(names) - NAMES_MAX
    text = f"{shown}, and {more} more" if more > 0 else shown
    return text if len(text) <= 110 else text[:109] + "…"


def _memory(plan: Plan, top: int) -> list[str]:
    live = [command["live_bytes"] for command in plan.commands()]
    most = max(live, default=0)
    width = (WIDTH - LABEL - 10) / max(len(live), 1)
    base = top + GRAPH_HEIGHT - 20
    points = []
    for i, count in enumerate(live):
        y = base - (count / most if most else 0) * (GRAPH_HEIGHT - 40)
        points += [f"{LABEL + i * width:.1f},{y:.1f}", f"{LABEL + (i + 1) * width:.1f},{y:.1f}"]
    area = " ".join([f"{LABEL},{base}", *points, f"{LABEL + len(live) * width:.1f},{base}"])
    return [
        f'<polygon points="{area}" fill="#4a90d9" fill-opacity="0.5"/>',
        f'<text x="{LABEL}" y="{top + 12}">live memory, command by command: at most {_bytes(most)}; '
        f"arena {_bytes(plan.stats['arena_bytes'])}</text>",
    ]


def plan_svg(plan: Plan) -> str:
    """The picture of a plan that notebooks show. Long plans: the first levels, and how many follow."""
    levels = _levels(plan)
    shown = levels[:ROWS_MAX]
    top = 30 + len(shown) * ROW + (ROW if len(levels) > len(shown) else 0)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top + GRAPH_HEIGHT}" '
        'font-family="monospace" font-size="11">',
        f'<rect width="{WIDTH}" height="{top + GRAPH_HEIGHT}" fill="white"/>',
        f'<text x="6" y="16" font-weight="bold">{escape(repr(plan)[1:90])}</text>',
    ]
    for row, (label, names) in enumerate(shown):
        y = 30 + row * ROW
        fill = "#eef3f8" if row % 2 else "#dce7f2"
        lines.append(f'<rect x="{LABEL}" y="{y}" width="{WIDTH - LABEL - 10}" height="{ROW - 2}" fill="{fill}"/>')
        lines.append(
            f'<text x="6" y="{y + 12}">{label}</text><text x="{LABEL + 4}" y="{y + 12}">{escape(_text(names))}</text>'
        )
    if len(levels) > len(shown):
        lines.append(f'<text x="{LABEL + 4}" y="{top - 6}">… and {len(levels) - len(shown)} levels more</text>')
    return "\n".join([*lines, *_memory(plan, top), "</svg>"])


LONGEST = 12


def _time(ns: float) -> str:
    return f"{ns / 1e3:.1f} µs" if ns < 1e6 else f"{ns / 1e6:.2f} ms" if ns < 1e9 else f"{ns / 1e9:.2f} s"


def _covered(spans: list[tuple[int, int]]) -> int:
    """How long at least one of them was under way."""
    covered, end = 0, 0
    for begin, last in sorted(spans):
        covered += max(0, last - max(begin, end))
        end = max(end, last)
    return covered


def run_svg(ticket: Ticket, plan: Plan) -> str | None:
    """The summary of a ticket's replay: its commands in time, and the longest, alike ones together. None where there
    is none: the device has no diagnostics, or the replay has not ended, or another one since."""
    try:
        if not ticket.done():
            return None
        times = plan.times()
        if times["number"] != ticket.number:
            return None
    except Error:
        return None
    spans = [(one["name"], begin, end) for one, (begin, end) in zip(plan.commands(), times["commands"], strict=True)]
    ran = [span for span in spans if span[2] > span[1]]
    if not ran:
        return None
    first, last = min(begin for _, begin, _ in ran), max(end for _, _, end in ran)
    sums: dict[str, tuple[int, int]] = {}
    for name, begin, end in ran:
        count, total = sums.get(name, (0, 0))
        sums[name] = count + 1, total + end - begin
    longest = sorted(sums.items(), key=lambda one: -one[1][1])
    rows = [(name if count == 1 else f"{name} × {count}", total) for name, (count, total) in longest[:LONGEST]]
    if len(longest) > LONGEST:
        rows.append((f"{len(longest) - LONGEST} others", sum(total for _, (_, total) in longest[LONGEST:])))
    busy = _covered([(begin, end) for _, begin, end in ran])
    title = (
        f"{repr(ticket)[1:-1]}, {_time(times['completed'] - times['submitted'])} from submit to completion; "
        f"commands {_time(last - first)}, {100 * busy / (last - first):.0f} % of it busy"
    )
    scale = (WIDTH - LABEL - 10) / (last - first)
    height = 62 + ROW * len(rows)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="monospace" '
        'font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="6" y="16" font-weight="bold">{escape(title[:130])}</text>',
    ]
    lines += [
        f'<rect x="{LABEL + (begin - first) * scale:.1f}" y="26" width="{max(0.5, (end - begin) * scale):.1f}" '
        f'height="20" fill="#4a90d9" fill-opacity="0.6"><title>{escape(name)}: {_time(end - begin)}</title></rect>'
        for name, begin, end in sorted(ran, key=lambda span: span[1] - span[2])[: ROWS_MAX * 10]
    ]
    for row, (name, total) in enumerate(rows):
        y = 56 + row * ROW
        width = total / rows[0][1] * 200 if rows[0][1] else 0
        lines.append(
            f'<rect x="{WIDTH - 220}" y="{y}" width="{min(width, 210):.1f}" height="{ROW - 4}" fill="#dce7f2"/>'
            f'<text x="{LABEL}" y="{y + 12}">{escape(_text([name]))}</text>'
            f'<text x="{WIDTH - 216}" y="{y + 12}">{_time(total)}</text>'
        )
    return "\n".join([*lines, "</svg>"])
