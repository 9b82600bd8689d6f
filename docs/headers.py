"""The public headers as hawkmoth reads them: a comment before a declaration, and one behind a member, become comments
of documentation. Nothing else of a header changes, and nothing of it is kept."""
import pathlib
import re
import shutil

COMMENT = re.compile(r"/\*(.*?)\*/", re.S)
LISTED = re.compile(r"set\(ROTA_PUBLIC_HEADERS(.*?)\)", re.S)


def public_headers(root):
    """Those that are installed, as cmake/install.cmake has them."""
    words = LISTED.search((root / "cmake/install.cmake").read_text()).group(1).split()
    return [word for word in words if word.endswith(".h") and (root / word).exists()]


def in_lines(text):
    """A comment's sentences without the stars at its lines' beginnings."""
    return "\n".join(re.sub(r"^\s*(\* ?)?", "", line).rstrip() for line in text.strip().splitlines())


def move_comments(text):
    """Comments before a declaration, and those behind members, which go before them, as comments of documentation."""
    out, at = [], 0
    for match in COMMENT.finditer(text):
        before, after = text[at:match.start()], text[match.end():]
        begin = text.rfind("\n", 0, match.start()) + 1
        line_before = text[begin:match.start()]
        body = in_lines(match.group(1))
        if body.startswith("----") or re.search(r"\\\n$", text[:begin]):
            out += [before, match.group(0)]  # a section's name; inside a macro
        elif match.start() == 0 or (line_before.strip() == "" and re.match(r"\n[^\n\s#]|\n[ \t]+\w", after)):
            out += [before, f"/**\n{body}\n*/"]
        elif re.search(r"[;,\w]\s*$", line_before) and line_before.startswith("    ") and begin >= at:
            out += [text[at:begin], f"/**\n{body}\n*/\n{line_before.rstrip()}"]
        else:
            out += [before, match.group(0)]
        at = match.end()
    return "".join(out) + text[at:]


def name_the_rest(text):
    """What has no comment of its own is listed, too."""
    lines, out, inside, open_comment = text.split("\n"), [], False, False
    for number, line in enumerate(lines):
        last = next((l for l in reversed(out) if l.strip()), "")
        begins = re.match(r"typedef (struct|enum|union) \w+ \{|ROTA_API \w|typedef \w.*\(\*\w+\)", line)
        member = inside and re.match(r"    \w[^()]*[;,]$|    [A-Z]\w*$|    [A-Z][^()]*,?$", line)
        if not open_comment and (begins or member) and not last.endswith("*/") and not last.endswith("\\"):
            out.append("/** */")
        out.append(line)
        if re.match(r"typedef (struct|enum|union) \w+ \{", line):
            inside = not line.rstrip().endswith(";")
        elif line.startswith("}"):
            inside = False
        if "/*" in line:
            open_comment = True
        if "*/" in line:
            open_comment = False
    return "\n".join(out)


def documented(text):
    """The header's text with comments of documentation."""
    return name_the_rest(move_comments(text))


def write_all(root, folder):
    """All public headers, below the folder as they are below the tree."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in public_headers(root):
        path = pathlib.Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(documented((root / name).read_text()))


def as_text(line):
    """Nothing of it is markup."""
    return re.sub(r"([\\*`|_<>])", r"\\\1", line)
