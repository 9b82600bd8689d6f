"""A plan as a picture: its commands by level, and what memory is live while they run in record order."""

from html import escape

from ._rota import Plan

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
