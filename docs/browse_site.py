#!/usr/bin/env python3
"""Opens each page of the site in Chromium, wide and as narrow as a telephone, light and dark, and says what a reader
would stumble over: a page or a picture wider than the window, a picture that is not shown, text that can't be told from
what is behind it, an error in the console. browse_site.py SITE CHROMIUM"""
import pathlib
import sys

from playwright.sync_api import sync_playwright

SIZES = ((1280, 900), (390, 844))
# Runs in the page. What scrolls by itself (code, tables) may be wider than the window.
LOOK = """() => {
    const faults = [], root = document.documentElement;
    if (root.scrollWidth > root.clientWidth)
        faults.push(`the page is ${root.scrollWidth} wide, the window ${root.clientWidth}`);
    for (const image of document.images)
        if (!image.complete || !image.naturalWidth) faults.push(`${image.src} is not shown`);
        else if (image.getBoundingClientRect().width > root.clientWidth)
            faults.push(`${image.src} is wider than the window`);
    const light = (color) => {
        const [r, g, b, a] = (color.match(/[\\d.]+/g) || []).map(Number);
        return a === 0 ? null : (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255;
    };
    for (const element of document.querySelectorAll("article p, article li, article td, article h1, article pre")) {
        let behind = element, under = null;
        while (behind && under === null) {
            under = light(getComputedStyle(behind).backgroundColor);
            behind = behind.parentElement;
        }
        const text = light(getComputedStyle(element).color);
        if (text !== null && under !== null && Math.abs(text - under) < 0.3) {
            faults.push(`'${element.textContent.slice(0, 40)}' can't be told from what is behind it`);
            break;
        }
    }
    return faults;
}"""


def browse(site, chromium):
    """The faults, and how many times a page was looked at."""
    pages = sorted(path for path in site.rglob("*.html") if path.name not in ("search.html", "genindex.html"))
    faults, seen = [], 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for width, height in SIZES:
            for scheme in ("light", "dark"):
                context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
                page = context.new_page()
                messages = []
                page.on("console", lambda m: messages.append(m.text) if m.type in ("error", "warning") else None)
                page.on("pageerror", lambda error: messages.append(str(error)))
                for path in pages:
                    messages.clear()
                    page.goto(path.as_uri(), wait_until="load")
                    seen += 1
                    faults += [f"{path.relative_to(site)} at {width}, {scheme}: {fault}"
                               for fault in page.evaluate(LOOK) + messages]
                context.close()
        browser.close()
    return faults, seen


def main():
    """Prints the faults."""
    faults, seen = browse(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2])
    print("\n".join(faults) or f"{seen} looks at pages, and nothing to say")
    return 1 if faults or not seen else 0


sys.exit(main())
