"""Manual pages of section 3: one for each public header, with everything that stands there, and one for each function,
which leads to its header's. build_docs.sh has them made by Sphinx, out of pages that are written here.
manual_pages.py ROOT SOURCE: writes those. manual_pages.py ROOT SOURCE MADE FOLDER: from what Sphinx made of them, the
pages as they are installed."""
import gzip
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import headers  # noqa: E402

SECTION = 3
SUMMARY_MAX = 90
LEFT_OUT = {"rota.h"}  # which only includes the others


def page_name(header):
    """rota_plan.h of sched/plan.h: what a program would include, and no function's name."""
    return "rota_" + pathlib.Path(header).name


def summary(root, header):
    """What a header is for: the first sentence of its first comment, as a phrase."""
    comment = headers.in_lines(headers.COMMENT.search((root / header).read_text()).group(1))
    sentence = re.split(r"[.;](?=\s|$)", " ".join(comment.split()), maxsplit=1)[0]
    if len(sentence) > SUMMARY_MAX:
        sentence = re.split(r"[,:](?=\s)", sentence, maxsplit=1)[0]
    sentence = re.sub(r" \([^)]*$", "", sentence)
    return sentence[0].lower() + sentence[1:]


def entries(root):
    """What Sphinx is to make: source, name, description, authors, section."""
    root = pathlib.Path(root)
    return [(page_name(header)[:-2], page_name(header), summary(root, header), ["the authors of rota"], SECTION)
            for header in headers.public_headers(root) if header not in LEFT_OUT]


def write_sources(root, folder):
    """A page each, and the one that they hang on."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    names = []
    for header in headers.public_headers(root):
        if header in LEFT_OUT:
            continue
        names.append(page_name(header)[:-2])
        title = page_name(header)
        include = f"Synopsis\n--------\n\n.. code-block:: c\n\n   #include <rota/{header}>\n\nlinked with ``-lrota``.\n"
        body = f"Description\n-----------\n\n.. c:autodoc:: {header}\n"
        (folder / f"{names[-1]}.rst").write_text(f"{title}\n{'=' * len(title)}\n\n{include}\n{body}")
    listed = "".join(f"   {name}\n" for name in names)
    (folder / "index.rst").write_text(f"rota\n====\n\n.. toctree::\n\n{listed}")


def declarations_by_page(root):
    """{page: {function: its declaration}}. Preprocessed: many come from lists, which nobody reads as C."""
    listed = [header for header in headers.public_headers(root) if header not in LEFT_OUT]
    includes = [word for header in listed for word in ("-include", header)]
    text = subprocess.run(["cc", "-E", "-I.", *includes, "-x", "c", "/dev/null"], cwd=root, check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    pages = {page_name(header): {} for header in listed}
    marker = re.compile(r'^# \d+ "(?:\./)?([^"]*)".*\n', re.M)
    public = 'extern __attribute__((visibility("default")))'
    file = None
    for part in text.split(public):
        declaration = " ".join(marker.sub("", part).split(";")[0].split())
        name = re.match(r"[^()]*?\b(rota_\w+)\s*\(", declaration)
        if name and file in listed:
            pages[page_name(file)][name[1]] = declaration
        file = (marker.findall(part) or [file])[-1]
    return pages


def clean(text):
    """Without what stands for links, and without the name of the macro that keeps a header from being read twice."""
    text = re.sub(r" \\%<[^>\n]*>", "", text)
    return re.sub(r"^\.TP\n\.B ROTA_\w+_H \n", ".sp\n", text, flags=re.M)


def with_lists(text, functions):
    """The page, and the functions of it that only a list of names declares."""
    rest = [declaration for name, declaration in sorted(functions.items()) if not re.search(rf"\b{name}\(", text)]
    if not rest:
        return text
    lines = "".join(f".TP\n.B {declaration}\n" for declaration in rest).replace("-", "\\-")
    return text.replace(".SH Author", f".SH FUNCTIONS OF LISTS\nNamed in the header by a list, with what all of them "
                        f"have in common beside it.\n{lines}.SH Author", 1)


def write_pages(root, made, folder):
    """As they are installed: compressed, and a link by name for each function and struct. Returns the links."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pages = declarations_by_page(root)

    def put(name, text):
        with open(folder / f"{name}.{SECTION}.gz", "wb") as file, gzip.GzipFile("", "wb", 9, file, 0) as packed:
            packed.write(text.encode())

    linked = set()
    for path in sorted(made.glob(f"*.{SECTION}")):
        name = path.stem
        text = with_lists(clean(path.read_text()), pages[name])
        put(name, text)
        types = set(re.findall(r"^\.B (?:struct|enum|union) (rota_\w+) ", text, re.M))
        for linked_name in (set(pages[name]) | types) - linked:
            put(linked_name, f".so man{SECTION}/{name}.{SECTION}\n")
            linked.add(linked_name)
    return linked


def main():
    """See above."""
    root, source = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    if len(sys.argv) == 3:
        write_sources(root, source)
        return
    sys.path.insert(0, str(root / "scripts"))
    import exports  # pylint: disable=import-outside-toplevel
    linked = write_pages(root, pathlib.Path(sys.argv[3]), pathlib.Path(sys.argv[4]))
    missing = sorted(exports.declared() - linked)
    if missing:
        sys.exit(f"no manual page has {', '.join(missing)}")
    print(f"manual pages of {len(linked)} functions and structs")


if __name__ == "__main__":
    main()
