#!/usr/bin/env python3
"""Each link and picture of the site leads to a file of it, and to a place in that where it names one; each public
header is in its reference; and the listings that are not files of the tree are lines of one. check_site.py ROOT SITE"""
import html
import html.parser
import pathlib
import re
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import headers  # noqa: E402


class Page(html.parser.HTMLParser):
    """A page's places, and where it leads."""

    def __init__(self, path):
        super().__init__()
        self.places, self.links = set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if values.get("id"):
            self.places.add(values["id"])
        for name in ("href", "src"):
            if values.get(name):
                self.links.append(values[name])


def judge_links(site):
    """Faults, and how many links were looked at."""
    pages = {path.resolve(): Page(path) for path in sorted(site.rglob("*.html"))}
    faults, seen = [], 0
    for path, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            seen += 1
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            place = urllib.parse.unquote(parts.fragment)
            if not target.exists():
                faults.append(f"{path.relative_to(site)}: {link} leads nowhere")
            elif place and target in pages and place not in pages[target].places:
                faults.append(f"{path.relative_to(site)}: {link} leads to no place of that page")
    return faults, seen


def judge_commands(root, site):
    """The options that docs/tasks.md has programs called with are in what those say of themselves."""
    said = html.unescape(re.sub(r"<[^>]*>", "", (site / "reference/programs.html").read_text(encoding="utf-8")))
    faults, seen = [], 0
    for block in (root / "docs/tasks.md").read_text().split("```sh\n")[1:]:
        for line in block.split("```")[0].splitlines():
            options = [word.split("=")[0] for word in line.split() if word.startswith("--")]
            seen += 1
            faults += [f"docs/tasks.md: {line}: there is no {option}" for option in options
                       if not re.search(rf"{option}(?![\w-])", said)]
            if not line.startswith(("rota-bench ", "rota-run ", "train_gpt ", "train_patchtst ")):
                faults.append(f"docs/tasks.md: {line} calls none of the programs")
    return faults + ([] if seen else ["docs/tasks.md has no commands"])


def judge_pages(root):
    """What a page has that should be elsewhere, too."""
    reference = (root / "docs/reference/c.md").read_text()
    left_out = {"rota.h"}  # which only includes the others
    faults = [f"docs/reference/c.md lacks {header}" for header in headers.public_headers(root)
              if header not in left_out and f"c:autodoc:: {header}\n" not in reference]
    listing = (root / "docs/index.md").read_text().split("```python\n")[1].split("```")[0]
    if listing not in (root / "python/README.md").read_text():
        faults.append("the first page's listing is not that of python/README.md, which a test runs")
    return faults


def main():
    """Prints the faults."""
    root, site = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    faults, seen = judge_links(site)
    faults += judge_pages(root) + judge_commands(root, site)
    print("\n".join(faults) or f"{seen} links and pictures of the site lead somewhere")
    return 1 if faults or not seen else 0


sys.exit(main())
