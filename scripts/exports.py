#!/usr/bin/env python3
"""The shared library's version script (cmake/rota.map) against what the public headers declare with ROTA_API: prints
what differs, and fails. --write: adds what is missing to the script's newest version, and takes out what is declared no
more. --list: prints the names declared. A version that was released is never changed: what comes later gets a version
of its own, appended by hand as `ROTA_0.3 { global: rota_new; } ROTA_0.2;`, and what is gone wants another SONAME
(ROTA_ABI in CMakeLists.txt)."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAP = ROOT / "cmake/rota.map"


def preprocessed():
    """All that the public headers declare."""
    listed = re.search(r"^set\(ROTA_PUBLIC_HEADERS([^)]*)\)", (ROOT / "cmake/install.cmake").read_text(),
                       re.M).group(1).split()
    includes = [word for header in listed if header.endswith(".h") for word in ("-include", header)]
    # Preprocessed, since many declarations come from lists; each ends with a semicolon and starts with the attribute.
    return subprocess.run(["cc", "-E", "-P", "-I.", *includes, "-x", "c", "/dev/null"], cwd=ROOT, check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def declarations():
    """Each public function as it is declared, on one line, without the semicolon."""
    return [" ".join(found.split()) for found in
            re.findall(r'extern __attribute__\(\(visibility\("default"\)\)\)\s*([^;{]*);', preprocessed())]


def enums():
    return set(re.findall(r"typedef enum (rota_\w+) \{", preprocessed()))


def declared():
    names = set()
    for declaration in declarations():
        name = re.match(r"[^()]*?\b(rota_\w+)\s*\(", declaration)
        if not name:
            sys.exit(f"exported, but no function: {declaration}")
        names.add(name.group(1))
    if len(names) < 100:
        sys.exit(f"only these public names were found: {sorted(names)}")
    return names


def main():
    names = declared()
    if sys.argv[1:] == ["--list"]:
        print(*sorted(names), sep="\n")
        return
    script = MAP.read_text()
    listed = set(re.findall(r"\b(rota_\w+);", script))
    surplus, missing = listed - names, names - listed
    if sys.argv[1:] == ["--write"]:
        for name in surplus:
            script = re.sub(rf"\n +{name};", "", script)
        start = script.rindex("global:") + len("global:")
        end = re.compile(r"\n(?=  local:|\})").search(script, start).start()
        newest = set(re.findall(r"rota_\w+", script[start:end])) | missing
        MAP.write_text(script[:start] + "".join(f"\n    {name};" for name in sorted(newest)) + script[end:])
        return
    for name in sorted(surplus):
        print(f"{name} is in cmake/rota.map, and declared in no public header")
    for name in sorted(missing):
        print(f"{name} is declared in a public header, and not in cmake/rota.map")
    if surplus or missing:
        sys.exit("see scripts/exports.py --help" if len(sys.argv) == 1 else __doc__)
    print(f"{len(names)} public functions, all in cmake/rota.map and nothing else")


if __name__ == "__main__":
    if "--help" in sys.argv:
        sys.exit(print(__doc__))
    main()
