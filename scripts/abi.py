#!/usr/bin/env python3
"""The binary interface of the public headers, and whether it still is that of a release: every struct's size and its
members' places, every enumerator's value, every function's and callback's prototype.

  abi.py --write FILE [--root DIR]   describes it
  abi.py --check FILE [--root DIR]   what a program that was built with the headers of FILE would notice; fails if
                                     there is anything
  abi.py --stubs FILE [--root DIR]   a C file that defines each public function as nothing, for abidw, which reads
                                     a library

A struct that begins with struct_size may have grown: new members stand where it ended before. Other structs stay as
they are. What is new is no difference. --root: another tree with the same headers."""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def preprocessed(root):
    listed = re.search(r"^set\(ROTA_PUBLIC_HEADERS([^)]*)\)", (ROOT / "cmake/install.cmake").read_text(),
                       re.M).group(1).split()
    includes = [word for header in listed if header.endswith(".h") for word in ("-include", header)]
    text = subprocess.run(["cc", "-E", "-I.", *includes, "-x", "c", "/dev/null"], cwd=root, check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    kept, ours = [], False
    for line in text.splitlines(): # without what system headers declare
        mark = re.match(r'# \d+ "([^"]*)"', line)
        if mark:
            ours = not mark.group(1).startswith(("/", "<"))
        elif ours:
            kept.append(line)
    return " ".join(" ".join(kept).split()), includes


def split(text, separator):
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c in "{([":
            depth += 1
        elif c in "})]":
            depth -= 1
        elif c == separator and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def block_end(text, at):
    depth = 0
    for i in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i
    raise ValueError("unbalanced")


def members(body, bodies):
    """Paths of all members, and of those of a struct that is one, whether its type has a name or not."""
    names = []
    for member in split(body, ";"):
        nested = re.match(r"struct \{", member)
        if nested:
            end = block_end(member, member.index("{"))
            name = member[end + 1:].strip()
            names.append(name)
            names += [f"{name}.{inner}" for inner in members(member[member.index("{") + 1:end], bodies)]
            continue
        named = re.match(r"(rota_\w+) (\w+)$", member)
        if named and named.group(1) in bodies:
            names.append(named.group(2))
            names += [f"{named.group(2)}.{inner}" for inner in members(bodies[named.group(1)], bodies)]
            continue
        for declarator in split(member, ","):
            function = re.search(r"\(\*\s*(\w+)\)", declarator)
            plain = re.search(r"(\w+)\s*(\[[^\]]*\]\s*)*$", declarator)
            names.append((function or plain).group(1))
    return names


def prototype(text):
    """Without the parameters' names."""
    head, arguments = re.match(r"(.*?\brota_\w+)\s*\((.*)\)", text).groups()
    types = []
    for argument in split(arguments, ","):
        match = re.match(r"(.*[\s*])(\w+)\s*((?:\[[^\]]*\])*)$", argument)
        types.append(f"{match.group(1).strip()}{'*' if match.group(3) else ''}" if match and argument != "void"
                     else argument)
    return f"{head}({', '.join(types)})"


def parsed(root):
    text, includes = preprocessed(root)
    bodies, enums = {}, {}
    for match in re.finditer(r"\b(struct|enum) (rota_\w+) \{", text):
        end = block_end(text, match.end() - 1)
        body = text[match.end():end]
        if match.group(1) == "struct":
            bodies[match.group(2)] = body
        else:
            enums[match.group(2)] = [re.match(r"\w+", item).group(0) for item in split(body, ",")]
    structs = {name: members(body, bodies) for name, body in bodies.items()}
    callbacks = dict((match.group(2), match.group(0))
                     for match in re.finditer(r"typedef ([^;{}]*?)\(\*(rota_\w+)\)\([^;{}]*\)(?=;)", text))
    functions = {}
    for declaration in re.findall(r'extern __attribute__\(\(visibility\("default"\)\)\)\s*([^;{]*);', text):
        declaration = re.sub(r"__attribute__\s*\(\(.*?\)\)\)?", "", declaration).strip()
        functions[re.search(r"\b(rota_\w+)\s*\(", declaration).group(1)] = declaration
    return structs, enums, callbacks, functions, includes


def described(root):
    structs, enums, callbacks, functions, includes = parsed(root)
    lines = ["#include <stddef.h>", "#include <stdio.h>", "int main(void) {"]
    for name, paths in sorted(structs.items()):
        of = f"struct {name}"
        lines.append(f'printf("struct {name} size %zu align %zu\\n", sizeof({of}), _Alignof({of}));')
        for path in paths:
            lines.append(f'printf("member {name}.{path} at %zu size %zu\\n", offsetof({of}, {path}), '
                         f'sizeof((({of} *)0)->{path}));')
    for name, values in sorted(enums.items()):
        lines += [f'printf("enumerator {name} {value} %lld\\n", (long long){value});' for value in values]
    lines.append("return 0; }")
    with tempfile.TemporaryDirectory() as folder:
        source, program = pathlib.Path(folder) / "abi.c", pathlib.Path(folder) / "abi"
        source.write_text("\n".join(lines))
        subprocess.run(["cc", "-I.", *includes, str(source), "-o", str(program)], cwd=root, check=True)
        text = subprocess.run([str(program)], check=True, text=True, stdout=subprocess.PIPE).stdout
    return (text.splitlines() + [f"callback {name}: {text}" for name, text in sorted(callbacks.items())]
            + [f"function {name}: {prototype(text)}" for name, text in sorted(functions.items())])


def differences(before, after):
    now = dict(line.rsplit(" at ", 1) if line.startswith("member") else line.split(" size ", 1)
               if line.startswith("struct") else
               line.rsplit(" ", 1) if line.startswith("enumerator") else line.split(": ", 1) for line in after)
    sized = {key[len("member "):-len(".struct_size")] for key, value in now.items()
             if key.endswith(".struct_size") and value.startswith("0 ")}
    sizes, known = {}, set()
    for line in before:
        if line.startswith("struct"):
            key, value = line.split(" size ", 1)
            name = key.split()[1]
            size, align = value.split(" align ")
            sizes[name] = int(size)
            if key not in now:
                yield f"{key} is gone"
                continue
            new_size, new_align = now[key].split(" align ")
            if new_align != align or int(new_size) < int(size) or (new_size != size and name not in sized):
                yield f"{key} was of {value}, and is of {now[key]}"
            continue
        separator = " at " if line.startswith("member") else " " if line.startswith("enumerator") else ": "
        key, value = line.split(separator, 1) if separator == ": " else line.rsplit(separator, 1)
        known.add(key)
        if key not in now:
            yield f"{key} is gone"
        elif now[key] != value and not key.endswith("_COUNT"):
            yield f"{key} was {value}, and is {now[key]}"
    inside = {key.rpartition(".")[0] for key in known}
    for key, value in now.items():
        if key.startswith("member") and key not in known:
            holders = [key[:at] for at in range(len(key)) if key[at] == "."]
            if any(holder in known and holder not in inside for holder in holders):
                continue # of a member whose type is described by itself
            name = key.split()[1].split(".")[0]
            if name in sizes and (name not in sized or int(value.split()[0]) < sizes[name]):
                yield f"{key} is new at {value.split()[0]}, where {name} of before had {sizes[name]} bytes"


def main():
    words = sys.argv[1:]
    root = pathlib.Path(words[words.index("--root") + 1]) if "--root" in words else ROOT
    if len(words) < 2 or words[0] not in ("--write", "--check", "--stubs"):
        sys.exit(__doc__)
    if words[0] == "--stubs":
        functions, includes = parsed(root)[3:]
        headers = "".join(f'#include "{header}"\n' for header in includes[1::2])
        stubs = (text + " { __builtin_trap(); }\n" for name, text in sorted(functions.items()))
        pathlib.Path(words[1]).write_text("#include <stddef.h>\n" + headers + "".join(stubs))
        return
    lines = described(root)
    if words[0] == "--write":
        pathlib.Path(words[1]).write_text("\n".join(lines) + "\n")
        return
    found = list(differences(pathlib.Path(words[1]).read_text().splitlines(), lines))
    print(*found, sep="\n", end="\n" if found else "")
    if found:
        sys.exit(1)
    print(f"{len(lines)} facts, none of which a program built with {pathlib.Path(words[1]).stem} would notice")


if __name__ == "__main__":
    main()
