"""The site: these pages, as they stand, with a reference from the headers, the Python package and the programs
themselves.
scripts/build_docs.sh builds it."""
import os
import pathlib
import re
import subprocess
import sys

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs"))
import headers  # noqa: E402  docs/headers.py
import manual_pages  # noqa: E402  docs/manual_pages.py
import python_names  # noqa: E402  docs/python_names.py

project = "rota"
author = "the authors of rota"
version_header = (ROOT / "base/export.h").read_text()
release = version = ".".join(
    re.search(rf"ROTA_VERSION_{part} (\d+)", version_header).group(1) for part in ("MAJOR", "MINOR", "PATCH"))

extensions = ["myst_parser", "hawkmoth"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
exclude_patterns = ["drawings/*.txt"]
html_theme = "furo"
html_title = f"rota {release}"
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
pygments_style = "friendly"
add_module_names = False
# Longer ones have a line for each argument.
python_maximum_signature_line_length = 80
# `none` has no colours; text that no language fits says so.
highlight_language = "none"
man_pages = manual_pages.entries(ROOT)
man_show_urls = False

# Where the programs are; without them their pages can't be made.
build = pathlib.Path(os.environ.get("ROTA_BUILD", ROOT / "build"))
generated = pathlib.Path(os.environ.get("ROTA_DOCS_GENERATED", build / "docs-generated"))
headers.write_all(ROOT, generated / "include")
hawkmoth_root = str(generated / "include")
hawkmoth_clang = ["-std=c17", f"-I{generated / 'include'}", "-D_GNU_SOURCE"]

def programs():
    """The programs, and rota-bench's commands: names, and what each says of itself."""
    bench = build / "bench/rota-bench"

    def said(*call):
        return subprocess.run([*call, "--help"], check=True, capture_output=True, text=True).stdout

    yield "train_gpt", said(build / "examples/train_gpt")
    yield "train_patchtst", said(build / "examples/train_patchtst")
    yield "rota-run", said(build / "bench/rota-run")
    listed = said(bench)
    yield "rota-bench", listed
    for name in re.findall(r"^  ([a-z]+) +\S", listed.split("Commands", 1)[1].split("\n\n")[0], re.M):
        yield f"rota-bench {name}", said(bench, name)


class Programs(SphinxDirective):
    """A section for each program."""

    def run(self):
        self.env.note_reread()  # what programs say is in no file that Sphinx would look at
        sections = []
        for name, text in programs():
            section = nodes.section(ids=[nodes.make_id(name)], names=[name])
            section += nodes.title(text=name)
            section += nodes.literal_block(text, text, language="none")
            sections.append(section)
        return sections


class PythonNames(SphinxDirective):
    """A part of the Python package's names. One that says nothing of itself is a warning, which is an error."""

    required_arguments = 1

    def run(self):
        written = python_names.write(self.arguments[0])
        for name in written.silent:
            logging.getLogger(__name__).warning("%s has no docstring", name, location=self.get_location())
        node = nodes.container()
        self.state.nested_parse(StringList(written.lines, self.arguments[0]), 0, node)
        return node.children


def plain(app, lines, transform, options):
    """Comments are plain sentences: what reStructuredText would take for markup stands for itself. One with lists or
    columns keeps its lines."""
    kept = any(re.match(r"\s+\S|[-*] ", line) for line in lines)
    lines[:] = [("| " if kept and line.strip() else "") + headers.as_text(line) for line in lines]


def setup(app):
    app.add_directive("programs", Programs)
    app.add_directive("python-names", PythonNames)
    app.connect("hawkmoth-process-docstring", plain)
