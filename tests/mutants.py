#!/usr/bin/env python3
"""Changes one line of the library at a time and asks the release suite whether it notices.

tests/mutants.py list                     the mutants that the seed draws
tests/mutants.py cover [--tests REGEX]    which lines each test executes, and how long it takes (build-mutants/coverage.json)
tests/mutants.py run [--jobs N] [--copy NAME] [--only 3,17] [--tests REGEX] [--seconds S] [--long] [--again]
tests/mutants.py try FILE...              the same for changes of one's own, each a unified diff
tests/mutants.py report                   what is known so far

Everything happens in a copy of the tree, build-mutants/tree, so that the checkout stays as it is. The copy is built once. A
mutant is its one object, compiled alone and linked before the library's archive into a test that is about to run; only tests
that execute the line run, the short ones first, those labelled long with --long. The first that fails kills the mutant. A test
fails where it ends with an error or needs more than four times its usual time, passes then on the tree as it is, and fails on
the mutant once more: the machine may be busy. Only programs of the tests' folder run; shell tests, which run installed
programs, would kill more, never less. build-mutants/results.json keeps what is known, by file, line text and change.

The draw depends on the text of lines, not on their places: a line that changes takes only itself out of the draw.
Memory orders are not changed here: the machine that runs this may be stronger than C11, and the explorations judge them.
Standard library only.
"""
import argparse, fcntl, hashlib, json, os, re, resource, shlex, shutil, subprocess, sys, threading, time
from pathlib import Path

SEED = 20261123
COUNT = 140
ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build-mutants"
FOLDERS = ["sched", "exec", "exec/cpu", "exec/vk", "exec/cuda", "graph"]
GRADIENT = "ops/gradient*.c"
# What cannot change what anybody sees: words for people, and what only measures.
LEFT_OUT = {"sched/plan/explain.c", "sched/plan/dot.c", "sched/plan/names.c", "sched/trace.c", "sched/plan/commands.c", "sched/times.c",
            "exec/cuda/cuda_error.c"}
# Tests that judge no behaviour of the release build: texts of proofs, and what judges shaders alone.
LEFT_OUT_TESTS = r"test_proofs|test_models.*|explore_.*|test_shaders|test_cuda_kernels"
MEMORY_MAX = 6 << 30  # of private memory in bytes, for mutants that allocate without end

COMPARE = [(" <= ", " < "), (" < ", " <= "), (" >= ", " > "), (" > ", " >= "), (" == ", " != "), (" != ", " == ")]


def code_of(line):
    """The line with its strings and comments blanked, so that columns stay."""
    line = re.sub(r'"(?:\\.|[^"\\])*"', lambda m: '"' + "~" * (len(m[0]) - 2) + '"', line)
    return re.sub(r"/\*.*?(\*/|$)|//.*", lambda m: "~" * len(m[0]), line)


def is_message(text):
    return re.search(r"rota_fail|rota_log|_Static_assert|#|snprintf|rota_cause_new|rota_reason_fail|assert\(", text)


def changes_of(line, before):
    """All one-line changes of a line, after one of code: (kind, new line)."""
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
    begins = re.search(r"(?:[;{})]|\belse)~*\s*$", code_of(before))  # else it goes on with a statement
    if call and begins and "return" not in code and code.count("(") == code.count(")"):
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
    chosen = re.search(r" \? ([\w>.\-]+) : ([\w>.\-]+)(?=[,;)])", code)
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
        inside, seen, before = False, {}, ""
        for number, line in enumerate(path.read_text().splitlines(keepends=True), 1):
            comment = inside or line.lstrip().startswith("/*")
            inside = comment and "*/" not in line
            if comment:
                continue
            name = str(path.relative_to(ROOT))
            for kind, new in changes_of(line, before):
                text = f"{name}|{kind}|{line}|{new}"
                seen[text] = seen.get(text, 0) + 1
                rank = hashlib.sha256(f"{SEED}|{text}|{seen[text]}".encode()).digest()
                by_kind.setdefault(kind, []).append((rank, (name, number, kind, line, new)))
            before = line if line.strip() else before
    for candidates in by_kind.values():
        candidates.sort(reverse=True)
    drawn, lines = [], set()
    while len(drawn) < COUNT:
        for kind in sorted(by_kind):
            while by_kind[kind]:
                mutant = by_kind[kind].pop()[1]
                if mutant[:2] not in lines:
                    lines.add(mutant[:2])
                    drawn.append(mutant)
                    break
    return drawn[:COUNT]


def key_of(mutant):
    return f"{mutant[0]}|{mutant[2]}|{mutant[3].strip()}|{mutant[4].strip()}"


def known(name="results.json"):
    path = WORK / name
    return json.loads(path.read_text()) if path.exists() else {}


def keep(values, name="results.json"):
    WORK.mkdir(exist_ok=True)
    temporary = WORK / (name + ".new")
    temporary.write_text(json.dumps(values, indent=1 if name == "results.json" else None))
    temporary.replace(WORK / name)


def bounded():
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_MAX, MEMORY_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def command(arguments, where, limit, environment=None, limits=None):
    """(output, exit code or None where it ran past the limit)"""
    process = subprocess.Popen(arguments, cwd=where, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                               stdin=subprocess.DEVNULL, start_new_session=True, env=environment, preexec_fn=limits)
    try:
        return process.communicate(timeout=limit)[0], process.returncode
    except subprocess.TimeoutExpired:
        return "", None
    finally:
        try:
            os.killpg(process.pid, 9)  # and what it has started
        except ProcessLookupError:
            pass
        process.wait()


def must(arguments, where):
    output, code = command(arguments, where, 7200)
    if code != 0:
        sys.exit(f"{shlex.join(map(str, arguments))}:\n{output[-3000:]}")
    return output


def prepare(options):
    """A copy of the tree, as the checkout is now."""
    tree = WORK / options.copy
    tree.mkdir(parents=True, exist_ok=True)
    for name in filter(None, must(["git", "ls-files", "-z"], ROOT).split("\0")):
        source, target = ROOT / name, tree / name
        if source.is_file() and (not target.exists() or source.read_bytes() != target.read_bytes()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
            os.utime(target)
    images = tree / "build-images"
    if not images.exists():
        (ROOT / "build-images").mkdir(exist_ok=True)
        images.symlink_to(ROOT / "build-images")
    return tree


LINKER = "-fuse-ld=mold" if shutil.which("mold") else ""


def configure(tree, name, *options):
    build = tree / name
    must(["cmake", "--preset", "release", "-B", str(build), *options], tree)
    return build


def tests_of(build):
    """{name: (executable, arguments, is it labelled long)} of ctest's tests that are programs of the folder tests."""
    text, found = (build / "tests" / "CTestTestfile.cmake").read_text(), {}
    for name, words in re.findall(r"^add_test\((\S+) (.*)\)$", text, re.M):
        name, words = re.sub(r"^\[=*\[|\]=*\]$", "", name), shlex.split(words)
        about = re.search(r"^set_tests_properties\((?:\[=*\[)?" + re.escape(name) + r"(?:\]=*\])? PROPERTIES (.*)\)$", text, re.M)
        labels = re.search(r'LABELS "(.*?)"', about[1]) if about else None
        labels = labels[1].split(";") if labels else []
        if Path(words[0]).parent == build / "tests" and not re.fullmatch(LEFT_OUT_TESTS, name) and "full" not in labels:
            found[name] = (Path(words[0]).name, words[1:], "long" in labels)
    return found


def run_test(executable, arguments, where, limit, **more):
    begun = time.time()
    output, code = command([str(executable), *arguments], where, limit, dict(os.environ, **more), bounded)
    return code in (0, 77), time.time() - begun, output


LAUNCHER = """#!/bin/sh
case "$*" in
  *rota_marks.dir/sched/*|*rota_marks.dir/exec/*|*rota_marks.dir/graph/*|*rota_plain.dir/ops/gradient*)
    exec "$@" -O0 --coverage -fprofile-update=prefer-atomic ;;
esac
exec %s "$@"
"""


def cover(options):
    """Runs each test once in a build that counts lines."""
    tree = prepare(options)
    launcher = WORK / "launcher.sh"
    launcher.write_text(LAUNCHER % (shutil.which("ccache") or ""))
    launcher.chmod(0o755)
    build = configure(tree, "build-cov", f"-DCMAKE_C_COMPILER_LAUNCHER={launcher}", f"-DCMAKE_EXE_LINKER_FLAGS=--coverage {LINKER}")
    tests = tests_of(build)
    chosen = [name for name in tests if (re.fullmatch(options.tests, name) if options.tests else options.long or not tests[name][2])]
    must(["cmake", "--build", str(build), "-j", str(options.jobs), "--target", *sorted({tests[name][0] for name in chosen})], tree)
    notes = {path.relative_to(build): path for path in build.rglob("*.gcno")}
    coverage, lock, left = known("coverage.json"), threading.Lock(), sorted(chosen, reverse=True)
    texts = {str(path.relative_to(ROOT)): hashlib.sha256((tree / path.relative_to(ROOT)).read_bytes()).hexdigest() for path in sources()}

    def one(name):
        executable, arguments, _ = tests[name]
        data = WORK / "counts" / name
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir(parents=True)
        passed, seconds, _ = run_test(build / "tests" / executable, arguments, build / "tests", 600, GCOV_PREFIX=str(data),
                                      GCOV_PREFIX_STRIP=str(len(build.parts) - 1))
        files = {}
        counted = list(data.rglob("*.gcda"))
        for path in counted:
            path.with_suffix(".gcno").symlink_to(notes[path.relative_to(data).with_suffix(".gcno")])
        output = subprocess.run(["gcov", "--json-format", "--stdout", *map(str, counted)], cwd=build, capture_output=True, text=True).stdout
        for document in filter(str.strip, output.splitlines()):
            for file in json.loads(document)["files"]:
                place = os.path.relpath(os.path.join(build, file["file"]), tree)
                if place in texts:
                    lines = files.setdefault(place, {"text": texts[place], "runs": set(), "lines": set()})
                    for line in file["lines"]:
                        lines["lines"].add(line["line_number"])
                        if line["count"]:
                            lines["runs"].add(line["line_number"])
        shutil.rmtree(data)
        return {"seconds": round(seconds, 2), "passed": passed,
                "files": {place: {"text": l["text"], "runs": sorted(l["runs"]), "lines": sorted(l["lines"])} for place, l in files.items()}}

    def worker():
        while True:
            with lock:
                if not left:
                    return
                name = left.pop()
            result = one(name)
            with lock:
                coverage[name] = result
                keep(coverage, "coverage.json")
                print(f"{name}: {'' if result['passed'] else 'FAILS, '}{result['seconds']} s, "
                      f"{sum(len(f['runs']) for f in result['files'].values())} lines", flush=True)

    share(options.jobs, worker)


def share(jobs, worker):
    threads = [threading.Thread(target=worker) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Suite:
    """The tree's release build, and what is known of its tests."""

    def __init__(self, options):
        self.tree = prepare(options)
        self.build = configure(self.tree, "build", f"-DCMAKE_EXE_LINKER_FLAGS={LINKER}")
        self.tests = tests_of(self.build)
        must(["cmake", "--build", str(self.build), "-j", str(options.jobs), "--target",
              *sorted({executable for executable, _, _ in self.tests.values()})], self.tree)
        self.compiles = {}
        for entry in json.loads((self.build / "compile_commands.json").read_text()):
            words = shlex.split(entry["command"])
            self.compiles.setdefault(os.path.relpath(entry["file"], self.tree), {})[words[words.index("-o") + 1]] = words
        self.links, self.coverage, self.lock = {}, known("coverage.json"), threading.Lock()

    def link_of(self, executable):
        with self.lock:
            if executable not in self.links:
                text = must(["ninja", "-C", str(self.build), "-t", "commands", f"tests/{executable}"], self.build)
                last = text.strip().splitlines()[-1]
                self.links[executable] = shlex.split(re.sub(r"^: && | && :.*$", "", last))
            return self.links[executable]

    def candidates(self, place, number, options):
        """Names of the tests that execute a line, the shortest first; those of which nothing is known count."""
        found = []
        text = hashlib.sha256((self.tree / place).read_bytes()).hexdigest()
        for name, (_, _, is_long) in self.tests.items():
            if options.tests and not re.fullmatch(options.tests, name) or is_long and not options.long and not options.tests:
                continue
            known_of = self.coverage.get(name)
            if not known_of or options.tests:
                about = known_of["seconds"] if known_of else 60.0 if is_long else 5.0
                if about <= options.seconds:
                    found.append((about, name))
                continue
            if not known_of["passed"]:
                continue
            lines = known_of["files"].get(place)
            if lines and lines["text"] == text:
                before = [line for line in lines["lines"] if line <= number]
                if not before or before[-1] not in lines["runs"]:
                    continue
            elif not lines:
                continue  # its program does not even contain the file
            if known_of["seconds"] <= options.seconds:
                found.append((known_of["seconds"], name))
        return sorted(found)

    def judge(self, place, text, number, folder, options, already=()):
        """(state, the test that fails, the tests that passed, what they took in seconds)"""
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            path.unlink()
        changed = folder / Path(place).name
        changed.write_text(text)
        objects, programs, passed, total = {}, {}, [], 0.0
        chosen, doubtful = self.candidates(place, number, options), []
        if not chosen:
            return "not executed", None, [], 0.0
        for usual, name in chosen:
            if name in already:
                continue
            executable, arguments, _ = self.tests[name]
            if executable not in programs:
                link = list(self.link_of(executable))
                outputs = self.compiles[place]
                own = [output for output in outputs if output in link]
                output = own[0] if own else next(o for o in outputs if "rota_marks" in o or "rota_plain" in o)
                if output not in objects:
                    made = folder / f"{len(objects)}.o"
                    words = list(outputs[output])
                    words[words.index("-o") + 1] = str(made)
                    words[words.index("-c") + 1] = str(changed)
                    words[words.index("-c"):words.index("-c")] = ["-iquote", str((self.tree / place).parent)]
                    said, code = command(words, self.build, 600)
                    if code != 0:
                        return "does not build", said[-300:], [], 0.0
                    objects[output] = made
                program = folder / executable
                link[link.index("-o") + 1] = str(program)
                if own:
                    link[link.index(output)] = str(objects[output])
                else:
                    archive = next(i for i, word in enumerate(link) if word.endswith("librota_marks.a"))
                    link.insert(archive, str(objects[output]))
                said, code = command(link, self.build, 600)
                if code != 0:
                    return "does not link", said[-300:], [], 0.0
                programs[executable] = program
            limit = 4 * usual + 8
            fails = lambda program: run_test(program, arguments, self.build / "tests", limit)
            good, seconds, _ = fails(programs[executable])
            total += seconds
            if not good:
                if fails(self.build / "tests" / executable)[0] and not fails(programs[executable])[0]:
                    return "killed", name, passed, total
                doubtful.append(name)
                continue
            passed.append(name)
        return "lives", f"but {' '.join(doubtful)} failed once" if doubtful else None, passed, total


def run(options):
    wanted = [int(number) for number in options.only.split(",")] if options.only else None
    suite, lock = Suite(options), threading.Lock()
    left = [(index, mutant) for index, mutant in enumerate(draw(), 1) if wanted is None or index in wanted]
    left.reverse()

    def worker(folder):
        while True:
            with lock:
                if not left:
                    return
                index, (place, number, kind, line, new) = left.pop()
                key = key_of((place, number, kind, line, new))
                before = known().get(key, {})
            if before.get("state") in ("killed", "does not build") and not options.again:
                continue
            lines = (suite.tree / place).read_text().splitlines(keepends=True)
            if lines[number - 1] != line:
                sys.exit(f"{place} has changed since the copy was made")
            lines[number - 1] = new
            already = () if options.again else set(before.get("passed", []))
            state, said, passed, seconds = suite.judge(place, "".join(lines), number, folder, options, already)
            with lock, open(WORK / "results.lock", "w") as other_runs:
                fcntl.flock(other_runs, fcntl.LOCK_EX)
                results = known()
                results[key] = {"number": number, "state": state, "said": said, "passed": sorted({*passed, *already})}
                keep(results)
                print(f"{index:3} {place}:{number} {kind}: {state} {said or ''} ({len(passed)} tests, {seconds:.0f} s)", flush=True)

    folders = iter([WORK / f"{options.copy}-worker{n}" for n in range(options.jobs)])
    share(options.jobs, lambda: worker(next(folders)))


def attempt(options):
    """Changes of one's own: each file is a diff of one file of the library."""
    suite = Suite(options)
    left, lock = sorted(options.files, reverse=True), threading.Lock()

    def worker(folder):
        while True:
            with lock:
                if not left:
                    return
                diff = Path(left.pop())
            text = diff.read_text()
            place = re.search(r"^\+\+\+ (?:b/)?(\S+)", text, re.M)[1]
            number = int(re.search(r"^@@ -(\d+)", text, re.M)[1])
            for offset, line in enumerate(text[text.index("\n@@"):].split("\n")[2:]):
                if line[:1] in "+-":
                    break
                number += 1
            folder.mkdir(parents=True, exist_ok=True)
            target = folder.with_name(folder.name + ".c")
            said, code = command(["patch", "-s", "-o", str(target), str(suite.tree / place), str(diff.resolve())], WORK, 60)
            state, name, passed, seconds = ("does not apply", said, [], 0) if code != 0 else \
                suite.judge(place, target.read_text(), number, folder, options)
            print(f"{diff.name} {place}:{number}: {state} {name or ''} ({len(passed)} tests, {seconds:.0f} s)", flush=True)

    folders = iter([WORK / f"{options.copy}-worker{n}" for n in range(options.jobs)])
    share(options.jobs, lambda: worker(next(folders)))


def report(_options):
    results, states = known(), {}
    print("| number | place | change | state |\n| --- | --- | --- | --- |")
    for index, mutant in enumerate(draw(), 1):
        result = results.get(key_of(mutant), {})
        state = result.get("state", "not run")
        states[state] = states.get(state, 0) + 1
        if state != "killed":
            text = mutant[3].strip().replace("|", "\\|"), mutant[4].strip().replace("|", "\\|")
            print(f"| {index} | `{mutant[0]}:{mutant[1]}` | `{text[0]}` to `{text[1]}` | {state} |")
    print("\n" + ", ".join(f"{count} {state}" for state, count in sorted(states.items())))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("list", "cover", "run", "try", "report"):
        one = commands.add_parser(name)
        if name in ("cover", "run", "try"):
            one.add_argument("--jobs", type=int, default=2)
            one.add_argument("--tests", help="only tests whose whole name this regular expression matches")
            one.add_argument("--copy", default="tree", help="the copy's name; each run needs one of its own")
            one.add_argument("--long", action="store_true", help="also tests that are labelled long")
        if name in ("run", "try"):
            one.add_argument("--seconds", type=float, default=1e9, help="only tests that take no longer")
        if name == "run":
            one.add_argument("--only", help="numbers of mutants, as list says them")
            one.add_argument("--again", action="store_true", help="also what is known")
        if name == "try":
            one.add_argument("files", nargs="+")
    options = parser.parse_args()
    if options.command == "list":
        for index, mutant in enumerate(draw(), 1):
            print(f"{index:3} {mutant[0]}:{mutant[1]} {mutant[2]}\n    - {mutant[3].strip()}\n    + {mutant[4].strip()}")
    else:
        {"cover": cover, "run": run, "try": attempt, "report": report}[options.command](options)


if __name__ == "__main__":
    main()
