#!/usr/bin/env python3
"""Changes one line of the library at a time and asks the release suite whether it notices.

tests/mutants.py list                      the mutants that the seed draws
tests/mutants.py run [--first N] [--last N] [--build FOLDER] [--suite quick|whole]
tests/mutants.py report                    what is known of them so far, as the table of docs/mutants.md

Each mutant is built in a copy of the tree (build-mutants/tree), so that the checkout stays as it is. Tests that noticed
others run first, then the short ones, then the long ones; the first that fails kills the mutant. What is known is kept in
build-mutants/results.json, by file, line text and change, so that a run goes on where the last one stopped.

Memory orders are not changed here: the machine that runs this may be stronger than C11, and the explorations judge them.
Standard library only.
"""
import argparse, json, os, random, re, shutil, subprocess, sys, time
from pathlib import Path

SEED = 20261123
COUNT = 140
ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build-mutants"
FOLDERS = ["sched", "exec", "exec/cpu", "exec/vk", "exec/cuda", "graph"]
GRADIENT = "ops/gradient*.c"
# What cannot change what anybody sees: words for people, and what only measures.
LEFT_OUT = {"sched/explain.c", "sched/trace.c", "sched/inspect.c", "sched/output.c", "exec/cuda/cuda_error.c"}
PARALLEL = "3"

COMPARE = [(" <= ", " < "), (" < ", " <= "), (" >= ", " > "), (" > ", " >= "), (" == ", " != "), (" != ", " == ")]


def code_of(line):
    """The line with its strings and comments blanked, so that columns stay."""
    line = re.sub(r'"(?:\\.|[^"\\])*"', lambda m: '"' + "~" * (len(m[0]) - 2) + '"', line)
    return re.sub(r"/\*.*?(\*/|$)|//.*", lambda m: "~" * len(m[0]), line)


def is_message(text):
    return re.search(r"rota_fail|rota_log|_Static_assert|#|snprintf|rota_cause_new|rota_reason_fail|assert\(", text)


def changes_of(line):
    """All one-line changes of a line: (kind, new line)."""
    code = code_of(line)
    found = []
    if is_message(code) or not code.strip():
        return found
    for old, new in COMPARE:
        start = code.find(old)
        while start >= 0:
            found.append(("comparison", line[:start] + new + line[start + len(old):]))
            start = code.find(old, start + 1)
    for pattern in (r" \+ 1\b(?!\.)", r" - 1\b(?!\.)"):
        for m in re.finditer(pattern, code):
            found.append(("bound", line[: m.start()] + line[m.end():]))
    call = re.fullmatch(r"(\s*)(?:\(void\))?[a-z_][\w>.\-\[\]]*\([^{}]*\);\s*", code.rstrip("\n"))
    if call and "return" not in code and code.count("(") == code.count(")"):
        found.append(("dropped call", call[1] + ";\n"))
    branch = re.fullmatch(r"(\s*(?:\} else )?if \()(.*)(\)(?: \{| [^{}]*;)?\s*)", code.rstrip("\n"))
    if branch:
        depth, end = 0, None
        start = code.index("if (") + 4
        for at in range(start, len(code)):
            depth += {"(": 1, ")": -1}.get(code[at], 0)
            if depth < 0:
                end = at
                break
        if end is not None:
            found.append(("swapped branch", line[:start] + "!(" + line[start:end] + ")" + line[end:]))
    for old, new in ((" && ", " || "), (" || ", " && ")):
        start = code.find(old)
        if start >= 0 and line.count("(") == line.count(")"):
            found.append(("condition", line[:start] + new + line[start + len(old):]))
    chosen = re.search(r" \? ([\w>.\-]+) : ([\w>.\-]+)", code)
    if chosen:
        at = chosen.span()
        found.append(("swapped branch", f"{line[:at[0]]} ? {line[chosen.start(2):chosen.end(2)]} : "
                      f"{line[chosen.start(1):chosen.end(1)]}{line[at[1]:]}"))
    return [(kind, new) for kind, new in found if new != line]


def sources():
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.c"))] + sorted(ROOT.glob(GRADIENT))
    return [path for path in files if str(path.relative_to(ROOT)) not in LEFT_OUT]


def draw():
    """COUNT mutants: kinds as often as each other as far as there are any, files by their number of lines."""
    by_kind = {}
    for path in sources():
        inside = False
        for number, line in enumerate(path.read_text().splitlines(keepends=True), 1):
            comment = inside or line.lstrip().startswith("/*")
            inside = comment and "*/" not in line
            if comment:
                continue
            for kind, new in changes_of(line):
                by_kind.setdefault(kind, []).append((str(path.relative_to(ROOT)), number, kind, line, new))
    random_source = random.Random(SEED)
    kinds, drawn, lines = sorted(by_kind), [], set()
    for kind in kinds:
        random_source.shuffle(by_kind[kind])
    while len(drawn) < COUNT:
        for kind in kinds:
            while by_kind[kind]:
                mutant = by_kind[kind].pop()
                if mutant[:2] not in lines:
                    lines.add(mutant[:2])
                    drawn.append(mutant)
                    break
    return drawn[:COUNT]


def key_of(mutant):
    return f"{mutant[0]}|{mutant[2]}|{mutant[3].strip()}|{mutant[4].strip()}"


def known():
    path = WORK / "results.json"
    return json.loads(path.read_text()) if path.exists() else {}


def keep(results):
    WORK.mkdir(exist_ok=True)
    temporary = WORK / "results.json.new"
    temporary.write_text(json.dumps(results, indent=1))
    temporary.replace(WORK / "results.json")


def command(arguments, where, limit):
    """(exit code or None where it ran past the limit, output)"""
    process = subprocess.Popen(arguments, cwd=where, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                               start_new_session=True)
    try:
        return process.communicate(timeout=limit)[0], process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        return process.communicate()[0], None


def prepare():
    tree = WORK / "tree"
    WORK.mkdir(exist_ok=True)
    if not tree.exists():
        tree.mkdir()
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        source, target = ROOT / name, tree / name
        if source.exists() and (not target.exists() or source.read_bytes() != target.read_bytes()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
            os.utime(target)
    images = tree / "build-images"
    if not images.exists():
        (ROOT / "build-images").mkdir(exist_ok=True)
        images.symlink_to(ROOT / "build-images")
    linker = ["-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=mold"] if shutil.which("mold") else []
    output, code = command(["cmake", "--preset", "release", "-DCMAKE_C_FLAGS_RELEASE=-O1 -DNDEBUG", *linker], tree, 600)
    if code != 0:
        sys.exit(output)
    return tree


def build(tree):
    return command(["cmake", "--build", "build", "--target", "all", "rota_tests"], tree, 3600)


def suite(tree, results, whole):
    """The name of a test that fails, "" where none does."""
    killers = {}
    for result in results.values():
        for name in result.get("killers", []):
            killers[name] = killers.get(name, 0) + 1
    first = sorted(killers, key=lambda name: -killers[name])[:12]
    steps = [["-R", "^(" + "|".join(re.escape(name) for name in first) + ")$"]] if first else []
    steps += [["-LE", "long|full"]] + ([["-L", "long", "-LE", "full"]] if whole else [])
    for step in steps:
        output, code = command(["ctest", "--test-dir", "build", "-j", PARALLEL, "--stop-on-failure", "--timeout", "200", *step], tree, 2400)
        failed = re.findall(r"Test +#\d+: (\S+) \.*(?:\*\*\*|   )(?:Failed|Exception|Timeout|Not Run)", output)
        failed = failed or re.findall(r"^\s*\d+ - (\S+) \((?!Skipped|Disabled)", output, re.M)
        if code != 0:
            return failed[:1] or ["(the suite did not end)"]
    return []


def run(options):
    drawn = draw()[options.first - 1:options.last]
    results = known()
    tree = prepare()
    output, code = build(tree)
    if code != 0:
        sys.exit(f"the tree does not build as it is:\n{output[-3000:]}")
    for index, mutant in enumerate(drawn, options.first):
        name, number, kind, line, new = mutant
        before = results.get(key_of(mutant), {})
        if before.get("state") in ("killed", "does not build", "equivalent") or (
                before.get("state") == "lives" and (before.get("whole") or options.suite == "quick")):
            continue
        path = tree / name
        original = path.read_text()
        lines = original.splitlines(keepends=True)
        assert lines[number - 1] == line
        lines[number - 1] = new
        started = time.time()
        path.write_text("".join(lines))
        try:
            output, code = build(tree)
            killers = suite(tree, results, options.suite == "whole") if code == 0 else []
        finally:
            path.write_text(original)
        state = "does not build" if code != 0 else "killed" if killers else "lives"
        results[key_of(mutant)] = {"number": number, "state": state, "killers": killers, "whole": options.suite == "whole",
                                   "seconds": round(time.time() - started)}
        keep(results)
        print(f"{index:3} {name}:{number} {kind}: {state} {' '.join(killers)} ({time.time() - started:.0f} s)", flush=True)


def report(_options):
    results, drawn = known(), draw()
    states = {}
    print("| place | change | state |\n| --- | --- | --- |")
    for mutant in drawn:
        result = results.get(key_of(mutant), {})
        state = result.get("state", "not run")
        states[state] = states.get(state, 0) + 1
        if state != "killed":
            text = mutant[3].strip().replace("|", "\\|"), mutant[4].strip().replace("|", "\\|")
            print(f"| `{mutant[0]}:{mutant[1]}` | `{text[0]}` to `{text[1]}` | {state} {result.get('why', '')} |")
    print("\n" + ", ".join(f"{count} {state}" for state, count in sorted(states.items())))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list")
    running = commands.add_parser("run")
    running.add_argument("--first", type=int, default=1)
    running.add_argument("--last", type=int, default=COUNT)
    running.add_argument("--suite", choices=["quick", "whole"], default="whole")
    commands.add_parser("report")
    options = parser.parse_args()
    if options.command == "list":
        for index, mutant in enumerate(draw(), 1):
            print(f"{index:3} {mutant[0]}:{mutant[1]} {mutant[2]}\n    - {mutant[3].strip()}\n    + {mutant[4].strip()}")
    else:
        {"run": run, "report": report}[options.command](options)


if __name__ == "__main__":
    main()
