"""The Python package's public names as the site has them: of its installed files, which are read and not imported, so
that neither torch nor JAX need be there. Each is a directive of Sphinx's Python domain with the docstring."""
import ast
import importlib.util
import pathlib
import re

import headers

STUB = "_rota.pyi"
BOTH = (ast.ClassDef, ast.FunctionDef)
# A part of the page: the module whose names they are, the files they are in, and which nodes of those.
PARTS = {
    "objects": ("rota", [STUB], ast.ClassDef),
    "functions": ("rota", [STUB], ast.FunctionDef),
    "python": ("rota", ["__init__.py", "training.py", "optimizers.py", "kernels.py", "allocators.py"], BOTH),
    "errors": ("rota.errors", ["errors.py"], ast.ClassDef),
    "torch": ("rota.torch", [f"torch/{name}.py" for name in ("__init__", "capture", "devices")], BOTH),
    "jax": ("rota.jax", ["jax.py"], BOTH),
}


def package():
    """The folder of the package beside this Python."""
    return pathlib.Path(importlib.util.find_spec("rota").origin).parent


def exported(folder, module):
    """The names that a module has of others of the package: `from .x import y as y`, or what it uses of its own."""
    path = folder / ("/".join(module.split(".")[1:]) or ".") / "__init__.py"
    if not path.exists():
        return None
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            names |= {alias.name for alias in node.names if alias.asname == alias.name}
        elif isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            names.add(node.name)
    return names


def as_lines(text):
    """A docstring's lines, in which only `code` is markup."""
    pieces = re.split(r"`([^`\n]+)`", text)
    marked = [f"\\ ``{piece}``\\ " if i % 2 else headers.as_text(piece) for i, piece in enumerate(pieces)]
    return "".join(marked).splitlines()


def signature(node, is_method):
    """As it is called: without self."""
    arguments = node.args
    if is_method and not is_marked(node, "staticmethod"):
        (arguments.posonlyargs or arguments.args).pop(0)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{node.name}({ast.unparse(arguments)}){returns}"


def is_marked(node, name):
    return any(ast.unparse(mark) == name for mark in node.decorator_list)


def is_public(name):
    return not name.startswith("_") or name == "__call__"


class Written:
    """A part's lines, and the names that say nothing of themselves."""

    def __init__(self):
        self.lines, self.silent, self.count = [], [], 0

    def add(self, kind, signatures, text, depth, options=()):
        indent = "   " * depth
        self.count += 1
        begin = f"{indent}.. py:{kind}:: "
        self.lines += [begin + signatures[0], *(" " * len(begin) + other for other in signatures[1:])]
        self.lines += [f"{indent}   {option}" for option in options] + [""]
        self.lines += [f"{indent}   {line}".rstrip() for line in as_lines(text)] + [""]

    def functions(self, nodes, owner, depth):
        """Those of one name are one entry: what it takes one or the other of."""
        by_name = {}
        for node in nodes:
            by_name.setdefault(node.name, []).append(node)
        for name, same in by_name.items():
            texts = [text for text in map(ast.get_docstring, same) if text]
            if is_marked(same[0], "property"):
                kind = f":type: {ast.unparse(same[0].returns)}" if same[0].returns else ""
                self.add("property", [name], texts[0] if texts else "", depth, [kind] if kind else [])
                continue
            if not texts:
                self.silent.append(f"{owner}{name}")
            signatures = [signature(node, bool(owner)) for node in same]
            self.add("method" if owner else "function", signatures, "\n\n".join(dict.fromkeys(texts)), depth)

    def a_class(self, node):
        text = ast.get_docstring(node) or ""
        bases = [base for base in map(ast.unparse, node.bases) if base not in ("Protocol", "ABC")]
        if not text and bases:
            text = "Also " + " and ".join(f"`{base}`" for base in bases) + "."
        if not text:
            self.silent.append(node.name)
        inside = [one for one in node.body if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))]
        begins = [one for one in inside if one.name == "__init__"]
        call = signature(begins[0], True).removeprefix("__init__").removesuffix(" -> None") if begins else ""
        self.add("class", [node.name + call], text, 0)
        self.functions([one for one in inside if is_public(one.name)], f"{node.name}.", 1)


def write(part):
    """A part of the page."""
    module, files, kinds = PARTS[part]
    folder, written = package(), Written()
    names = exported(folder, module)
    written.lines += [f".. py:currentmodule:: {module}", ""]
    for file in files:
        nodes = [node for node in ast.parse((folder / file).read_text()).body
                 if isinstance(node, kinds) and is_public(node.name)]
        nodes = [node for node in nodes if names is None or file == STUB or node.name in names]
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                written.a_class(node)
        written.functions([node for node in nodes if isinstance(node, ast.FunctionDef)], "", 0)
    return written
