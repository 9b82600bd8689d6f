#!/usr/bin/env python3
"""Changes one line of the library at a time and asks the release suite whether it notices.

tests/mutants.py list                     the mutants that the seed draws
tests/mutants.py cover [--tests REGEX]    which lines each test executes, and how long it takes (coverage.json)
tests/mutants.py run [--jobs N] [--copy NAME] [--only 3,17] [--tests REGEX] [--seconds S] [--long] [--again]
tests/mutants.py try FILE...              the same for changes of one's own, each a unified diff
tests/mutants.py report                   what is known so far
list, run and report take --seed and --count: another draw, of which nobody knew when the tests were written.

Everything happens in a copy of the tree, build-mutants/tree, so that the checkout stays as it is. The copy is built
once. A mutant is its one object, compiled alone and linked before the library's archive into a test that is about to
run; only tests that execute the line run, the short ones first, those labelled long with --long. Before that, the
control: the files as they are go the same way, all of a run's at once, and a test that then fails kills nothing. A
test fails where it ends with an error or needs more than four times what it took in the control; it kills where it then
passes in the control's program, and fails on the mutant once more: the machine may be busy. Each program that runs has
an empty HOME and cache of its own. Only programs of the tests' folder run; shell tests, which run installed programs,
would kill more, never less. build-mutants/results.json keeps what is known: by file, kind, line and place among equal
lines, and of which state of the library and its tests. Of another state it is not believed: the test that killed then
runs first.

The draw depends on the names of files and the text of lines, not on folders and numbers: a line that changes takes
only itself out of the draw. The script's own seed draws kinds of changes as often as each other, over all folders.
Another seed draws from each folder as its share of the lines is, and there kinds in turn, from lines that the script's
own leaves.
Memory orders are not changed here: the machine that runs this may be stronger than C11, and the explorations judge
them. Standard library only.
"""
import argparse, fcntl, hashlib, json, os, re, resource, shlex, shutil, subprocess, sys, threading, time
from pathlib import Path
from typing import NamedTuple

SEED = 20261123
COUNT = 140
ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build-mutants"
FOLDERS = ["sched", "sched/plan", "sched/runtime/*", "sched/trials", "sched/opening", "exec", "exec/common",
           "exec/cpu", "exec/vk", "exec/cuda", "graph"]
GRADIENT = "ops/gradient*.c"
# What cannot change what anybody sees: words for people, and what only measures.
LEFT_OUT = {"sched/plan/explain.c", "sched/plan/dot.c", "sched/plan/names.c", "sched/plan/commands.c",
            "sched/runtime/plans/trace.c",
            "sched/runtime/plans/times.c", "exec/cuda/cuda_error.c"}
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
        for i in range(start, len(code)):
            depth += {"(": 1, ")": -1}.get(code[i], 0)
            if depth < 0:
                end = i
                break
        if end is not None:
            found.append(("swapped branch", line[:start] + "!(" + line[start:end] + ")" + line[end:]))
    for old, new in ((" && ", " || "), (" || ", " && ")):
        start = code.find(old)
        if start >= 0 and line.count("(") == line.count(")"):
            found.append(("condition", line[:start] + new + line[start + len(old):]))
    chosen = re.search(r" \? ([\w>.\-]+) : ([\w>.\-]+)(?=[,;)])", code)
    if chosen:
        span = chosen.span()
        found.append(("swapped branch", f"{line[:span[0]]} ? {line[chosen.start(2):chosen.end(2)]} : "
                      f"{line[chosen.start(1):chosen.end(1)]}{line[span[1]:]}"))
    return [(kind, new) for kind, new in found if new != line]


def sources():
    files = [path for folder in FOLDERS for path in sorted(ROOT.glob(f"{folder}/*.c"))] + sorted(ROOT.glob(GRADIENT))
    return [path for path in files if str(path.relative_to(ROOT)) not in LEFT_OUT]


class Mutant(NamedTuple):
    path: str  # the file
    number: int  # of the line
    kind: str
    line: str
    new: str
    occurrence: int  # among the file's equal lines with this change, from 1

    def key(self):
        return f"{self.path}|{self.kind}|{self.line.strip()}|{self.new.strip()}|{self.occurrence}"


def lines_of_code(path):
    """(number, line, the one before) of a file's lines that are neither empty nor a comment"""
    inside, before = False, ""
    for number, line in enumerate(path.read_text().splitlines(keepends=True), 1):
        comment = inside or line.lstrip().startswith("/*")
        inside = comment and "*/" not in line
        if comment or not line.strip():
            continue
        yield number, line, before
        before = line


def shares(lines, count):
    """count divided as the folders' numbers of lines are, what is left over going to the largest remainders"""
    total = sum(lines.values())
    parts = {folder: count * lines[folder] // total for folder in lines}
    for folder in sorted(lines, key=lambda f: (-(count * lines[f] % total), f))[: count - sum(parts.values())]:
        parts[folder] += 1
    return parts


def draw(options):
    by_folder, lines_in = {}, {}
    for path in sources():
        name, seen = str(path.relative_to(ROOT)), {}
        folder = "" if options.seed == SEED else str(Path(name).parent)
        for number, line, before in lines_of_code(path):
            lines_in[folder] = lines_in.get(folder, 0) + 1
            for kind, new in changes_of(line, before):
                text = f"{path.name}|{kind}|{line}|{new}"
                seen[text] = seen.get(text, 0) + 1
                rank = hashlib.sha256(f"{options.seed}|{text}|{seen[text]}".encode()).digest()
                mutant = Mutant(name, number, kind, line, new, seen[text])
                by_folder.setdefault(folder, {}).setdefault(kind, []).append((rank, mutant))
    own = argparse.Namespace(seed=SEED, count=COUNT)
    drawn, taken = [], set() if options.seed == SEED else {mutant[:2] for mutant in draw(own)}
    for folder, wanted in shares(lines_in, options.count).items():
        by_kind, first = by_folder.get(folder, {}), len(drawn)
        for candidates in by_kind.values():
            candidates.sort(reverse=True)
        while len(drawn) < first + wanted and any(by_kind.values()):
            for kind in sorted(by_kind):
                while by_kind[kind]:
                    mutant = by_kind[kind].pop()[1]
                    if mutant[:2] not in taken:  # one change a line
                        taken.add(mutant[:2])
                        drawn.append(mutant)
                        break
        del drawn[first + wanted:]
    return drawn


# ---- What is kept ----


def known(name="results.json"):
    path = WORK / name
    return json.loads(path.read_text()) if path.exists() else {}


def keep(values, name="results.json"):
    WORK.mkdir(exist_ok=True)
    temporary = WORK / (name + ".new")
    temporary.write_text(json.dumps(values, indent=1 if name == "results.json" else None))
    temporary.replace(WORK / name)


def state_of(tree):
    """Of what decides a verdict: the library, its tests and how they are built. Not what only this script says."""
    files = must(["git", "ls-files", "-z"], ROOT).split("\0")
    state = hashlib.sha256()
    for name in sorted(files):
        judged = Path(name).suffix in (".c", ".h", ".comp", ".cu", ".glsl", ".txt", ".cmake", ".json", ".inc")
        if judged and not name.startswith("docs/") and (tree / name).is_file():
            state.update(f"{name}|".encode() + (tree / name).read_bytes())
    return state.hexdigest()[:16]


# ---- Programs ----


class Problem(Exception):
    """What ends a run, whichever thread meets it."""


class End(NamedTuple):
    output: str
    how: str  # "passed"; or what it ended by: "an assertion", "a crash", "time", "memory"
    seconds: float = 0.0


def bounded():
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_MAX, MEMORY_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def private_bytes(process):
    try:
        return int(Path(f"/proc/{process.pid}/statm").read_text().split()[5]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0  # it has ended


def command(arguments, where, limit, environment=None, limits=None):
    """(output, exit code or None where it ran past the limit, the most private memory that was seen, in bytes)"""
    process = subprocess.Popen(arguments, cwd=where, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", stdin=subprocess.DEVNULL, start_new_session=True, env=environment,
                               preexec_fn=limits)
    until, most = time.time() + limit, 0
    try:
        while True:
            try:
                output = process.communicate(timeout=min(0.1, max(until - time.time(), 0)))[0]
                return output, process.returncode, most
            except subprocess.TimeoutExpired:
                most = max(most, private_bytes(process))
                if time.time() >= until:
                    return "", None, most
    finally:
        try:
            os.killpg(process.pid, 9)  # and what it has started
        except ProcessLookupError:
            pass
        process.wait()


def must(arguments, where):
    output, code, _ = command(arguments, where, 7200)
    if code != 0:
        raise Problem(f"{shlex.join(map(str, arguments))}:\n{output[-3000:]}")
    return output


def run_test(executable, arguments, where, limit, home, **more):
    """Runs a test that finds nothing of what others left in HOME or in a cache."""
    shutil.rmtree(home, ignore_errors=True)
    (home / "cache").mkdir(parents=True)
    environment = dict(os.environ, HOME=str(home), XDG_CACHE_HOME=str(home / "cache"), **more)
    begun = time.time()
    output, code, most = command([str(executable), *arguments], where, limit, environment, bounded)
    if code in (0, 77):
        how = "passed"
    elif most > MEMORY_MAX * 0.9:
        how = "memory"
    elif code is None:
        how = "time"
    else:
        how = "a crash" if code < 0 or "Test failed with exception" in output else "an assertion"
    return End(output, how, time.time() - begun)


def share(jobs, things, work):
    """Calls work(number of the thread, thing) for all things, on so many threads. What one raises ends the others once
    they are through with theirs, and is raised here."""
    left, problems, lock = list(things)[::-1], [], threading.Lock()

    def one(number):
        while True:
            with lock:
                if not left or problems:
                    return
                thing = left.pop()
            try:
                work(number, thing)
            except BaseException as problem:
                with lock:
                    problems.append(problem)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


# ---- The copy of the tree ----


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


class Test(NamedTuple):
    executable: str
    arguments: list
    is_long: bool


def tests_of(build):
    """{name: Test} of ctest's tests that are programs of the folder tests."""
    text, found = (build / "tests" / "CTestTestfile.cmake").read_text(), {}
    for name, words in re.findall(r"^add_test\((\S+) (.*)\)$", text, re.M):
        name, words = re.sub(r"^\[=*\[|\]=*\]$", "", name), shlex.split(words)
        properties = r"^set_tests_properties\((?:\[=*\[)?" + re.escape(name) + r"(?:\]=*\])? PROPERTIES (.*)\)$"
        about = re.search(properties, text, re.M)
        labels = re.search(r'LABELS "(.*?)"', about[1]) if about else None
        labels = labels[1].split(";") if labels else []
        program = Path(words[0])
        if program.parent == build / "tests" and not re.fullmatch(LEFT_OUT_TESTS, name) and "full" not in labels:
            found[name] = Test(program.name, words[1:], "long" in labels)
    return found


# ---- Coverage ----

LAUNCHER = """#!/bin/sh
case "$*" in
  *rota_stops.dir/sched/*|*rota_stops.dir/exec/*|*rota_stops.dir/graph/*|*rota_plain.dir/sched/*|\
  *rota_plain.dir/ops/gradient*)
    exec "$@" -O0 --coverage -fprofile-update=prefer-atomic ;;
esac
exec %s "$@"
"""


def counted_lines(build, tree, texts, data, notes):
    """{file: its text, the lines that were executed, all lines of code} of a program's counts."""
    files, counts = {}, list(data.rglob("*.gcda"))
    for path in counts:
        path.with_suffix(".gcno").symlink_to(notes[path.relative_to(data).with_suffix(".gcno")])
    gcov = ["gcov", "--json-format", "--stdout", *map(str, counts)]
    output = subprocess.run(gcov, cwd=build, capture_output=True, text=True).stdout
    for document in filter(str.strip, output.splitlines()):
        for file in json.loads(document)["files"]:
            path = os.path.relpath(os.path.join(build, file["file"]), tree)
            if path not in texts:
                continue
            lines = files.setdefault(path, {"text": texts[path], "runs": set(), "lines": set()})
            lines["lines"].update(line["line_number"] for line in file["lines"])
            lines["runs"].update(line["line_number"] for line in file["lines"] if line["count"])
    return {path: {"text": l["text"], "runs": sorted(l["runs"]), "lines": sorted(l["lines"])}
            for path, l in files.items()}


def text_hash(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def cover(options):
    """Runs each test once in a build that counts lines."""
    tree = prepare(options)
    launcher = WORK / "launcher.sh"
    launcher.write_text(LAUNCHER % (shutil.which("ccache") or ""))
    launcher.chmod(0o755)
    build = configure(tree, "build-cov", f"-DCMAKE_C_COMPILER_LAUNCHER={launcher}",
                      f"-DCMAKE_EXE_LINKER_FLAGS=--coverage {LINKER}")
    tests = tests_of(build)
    chosen = [name for name, test in tests.items()
              if (re.fullmatch(options.tests, name) if options.tests else options.long or not test.is_long)]
    targets = sorted({tests[name].executable for name in chosen})
    must(["cmake", "--build", str(build), "-j", str(options.jobs), "--target", *targets], tree)
    notes = {path.relative_to(build): path for path in build.rglob("*.gcno")}
    texts = {str(path.relative_to(ROOT)): text_hash(tree / path.relative_to(ROOT)) for path in sources()}
    coverage, lock = known("coverage.json"), threading.Lock()

    def one(number, name):
        data = WORK / "counts" / name
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir(parents=True)
        end = run_test(build / "tests" / tests[name].executable, tests[name].arguments, build / "tests", 600,
                       WORK / f"home-cover{number}", GCOV_PREFIX=str(data), GCOV_PREFIX_STRIP=str(len(build.parts) - 1))
        files = counted_lines(build, tree, texts, data, notes)
        shutil.rmtree(data)
        with lock:
            coverage[name] = {"seconds": round(end.seconds, 2), "passed": end.how == "passed", "files": files}
            keep(coverage, "coverage.json")
            print(f"{name}: {end.how}, {end.seconds:.2f} s, {sum(len(f['runs']) for f in files.values())} lines",
                  flush=True)

    share(options.jobs, sorted(chosen), one)


# ---- Judging ----


class DoesNotBuild(Exception):
    pass


class Suite:
    """The tree's release build, and what is known of its tests."""

    def __init__(self, options):
        self.options, self.tree = options, prepare(options)
        self.state = state_of(self.tree)
        self.build = configure(self.tree, "build", f"-DCMAKE_EXE_LINKER_FLAGS={LINKER}")
        self.tests = tests_of(self.build)
        targets = sorted({test.executable for test in self.tests.values()})
        must(["cmake", "--build", str(self.build), "-j", str(options.jobs), "--target", *targets], self.tree)
        self.compiles = {}
        for entry in json.loads((self.build / "compile_commands.json").read_text()):
            words = shlex.split(entry["command"])
            outputs = self.compiles.setdefault(os.path.relpath(entry["file"], self.tree), {})
            outputs[words[words.index("-o") + 1]] = words
        self.links, self.coverage, self.lock = {}, known("coverage.json"), threading.Lock()
        self.usual = {}  # by test: what it took in the control, where it passed

    def link_of(self, executable):
        with self.lock:
            if executable not in self.links:
                commands = ["ninja", "-C", str(self.build), "-t", "commands", f"tests/{executable}"]
                last = must(commands, self.build).strip().splitlines()[-1]
                self.links[executable] = shlex.split(re.sub(r"^: && | && :.*$", "", last))
            return list(self.links[executable])

    def compiled(self, path, source, output, folder):
        made = folder / (hashlib.sha256(f"{path}|{output}".encode()).hexdigest()[:16] + ".o")
        if not made.exists():
            words = list(self.compiles[path][output])
            partial = made.with_suffix(f".{threading.get_ident()}")
            words[words.index("-o") + 1] = str(partial)
            words[words.index("-c") + 1] = str(source)
            words[words.index("-c"):words.index("-c")] = ["-iquote", str((self.tree / path).parent)]
            said, code, _ = command(words, self.build, 600)
            if code != 0:
                raise DoesNotBuild(said[-300:])
            partial.replace(made)
        return str(made)

    def program(self, executable, changed, folder):
        """A test's program with files, {path: source}, compiled alone and linked before the library's archive."""
        program = folder / executable
        if program.exists():
            return program
        link = self.link_of(executable)
        link[link.index("-o") + 1] = str(program)
        for path, source in changed.items():
            outputs = self.compiles[path]
            own = [output for output in outputs if output in link]  # the program has its own object of the file
            output = own[0] if own else next(o for o in outputs if "rota_stops" in o or "rota_plain" in o)
            made = self.compiled(path, source, output, folder)
            if own:
                link[link.index(output)] = made
            else:
                link.insert(next(i for i, word in enumerate(link) if word.endswith("librota_stops.a")), made)
        said, code, _ = command(link, self.build, 600)
        if code != 0:
            raise DoesNotBuild(said[-300:])
        return program

    def candidates(self, path, number):
        """Names of the tests that execute a line, the shortest first; those of which nothing is known count."""
        found, options, text = [], self.options, text_hash(self.tree / path)
        for name, test in self.tests.items():
            if options.tests and not re.fullmatch(options.tests, name):
                continue
            if test.is_long and not options.long and not options.tests:
                continue
            covered = self.coverage.get(name)
            seconds = covered["seconds"] if covered else 60.0 if test.is_long else 5.0
            if seconds > options.seconds:
                continue
            if covered and not options.tests:
                lines = covered["files"].get(path)
                if not lines:
                    continue  # its program does not even contain the file
                if lines["text"] == text:
                    before = [line for line in lines["lines"] if line <= number]
                    if not before or before[-1] not in lines["runs"]:
                        continue
            found.append((seconds, name))
        return [name for _, name in sorted(found)]

    def run(self, name, program, limit, home):
        return run_test(program, self.tests[name].arguments, self.build / "tests", limit, home)

    def control(self, paths, names):
        """Runs these tests with these files, all of them as they are, compiled and linked as a mutant is."""
        self.unchanged = WORK / f"{self.options.copy}-control"
        shutil.rmtree(self.unchanged, ignore_errors=True)
        self.unchanged.mkdir(parents=True)
        files = {path: self.tree / path for path in paths}
        executables = sorted({self.tests[name].executable for name in names})
        share(self.options.jobs, executables, lambda _, executable: self.program(executable, files, self.unchanged))

        def one(number, name):
            end = self.run(name, self.unchanged / self.tests[name].executable, 600, self.unchanged / f"home{number}")
            if end.how == "passed":
                self.usual[name] = end.seconds
            else:
                print(f"control: {name} ends by {end.how} on the tree as it is, and kills nothing", flush=True)

        share(self.options.jobs, sorted(names), one)
        print(f"control: {len(self.usual)} of {len(names)} tests pass", flush=True)

    def kills(self, name, program, limit, home):
        """(what a test ends by on the mutant twice, with a pass on the tree as it is between; "passed"; "doubtful"
        where it ends so only once, seconds)"""
        first = self.run(name, program, limit, home)
        if first.how == "passed":
            return "passed", first.seconds
        unchanged = self.run(name, self.unchanged / program.name, limit, home)
        again = self.run(name, program, limit, home) if unchanged.how == "passed" else None
        if again is None or again.how == "passed":
            return "doubtful", first.seconds
        return again.how, first.seconds + again.seconds

    def judge(self, path, text, number, folder, passed=(), first=None):
        """A verdict: state; of what is killed by what and by which test; the tests that passed, with those that did
        before; what they took in seconds. The test `first` runs first."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        changed = folder / Path(path).name
        changed.write_text(text)
        verdict = {"state": "lives", "passed": list(passed), "doubtful": [], "seconds": 0.0, "tree": self.state}
        chosen = [name for name in self.candidates(path, number) if name in self.usual]
        chosen.sort(key=lambda name: (name != first, self.usual[name]))
        if not chosen:
            return dict(verdict, state="no test ran")
        for name in chosen:
            if name in passed:
                continue
            try:
                program = self.program(self.tests[name].executable, {path: changed}, folder)
            except DoesNotBuild as problem:
                return dict(verdict, state="does not build", said=str(problem))
            by, seconds = self.kills(name, program, 4 * self.usual[name] + 8, folder / "home")
            verdict["seconds"] = round(verdict["seconds"] + seconds, 1)
            if by not in ("passed", "doubtful"):
                return dict(verdict, state="killed", by=by, test=name)
            verdict[by].append(name)
        return verdict


def said_of(verdict):
    said = verdict["state"]
    if verdict["state"] == "killed":
        said += f" by {verdict['by']} of {verdict['test']}"
    if verdict["doubtful"]:
        said += f", but {' '.join(verdict['doubtful'])} failed once"
    return f"{said} ({len(verdict['passed'])} tests passed, {verdict['seconds']:.0f} s)"


def run(options):
    wanted = [int(number) for number in options.only.split(",")] if options.only else None
    suite, lock, before = Suite(options), threading.Lock(), known()
    chosen, tests = [], set()
    for index, mutant in enumerate(draw(options), 1):
        verdict = before.get(mutant.key(), {})
        passed = verdict["passed"] if verdict.get("tree") == suite.state and not options.again else []
        is_known = verdict.get("tree") == suite.state and verdict["state"] in ("killed", "does not build")
        if (wanted is None or index in wanted) and (options.again or not is_known):
            chosen.append((index, mutant, passed, verdict.get("test")))
            tests.update(name for name in suite.candidates(mutant.path, mutant.number) if name not in passed)
    suite.control({mutant.path for _, mutant, _, _ in chosen}, tests)

    def one(number, thing):
        index, mutant, passed, first = thing
        lines = (suite.tree / mutant.path).read_text().splitlines(keepends=True)
        if lines[mutant.number - 1] != mutant.line:
            raise Problem(f"{mutant.path} has changed since the copy was made")
        lines[mutant.number - 1] = mutant.new
        folder = WORK / f"{options.copy}-worker{number}"
        verdict = suite.judge(mutant.path, "".join(lines), mutant.number, folder, passed, first)
        with lock, open(WORK / "results.lock", "w") as other_runs:
            fcntl.flock(other_runs, fcntl.LOCK_EX)
            results = known()
            results[mutant.key()] = verdict
            keep(results)
            print(f"{index:3} {mutant.path}:{mutant.number} {mutant.kind}: {said_of(verdict)}", flush=True)

    share(options.jobs, chosen, one)


def first_changed_line(diff):
    """(file, number) of a unified diff's first change"""
    path = re.search(r"^\+\+\+ (?:b/)?(\S+)", diff, re.M)[1]
    number = int(re.search(r"^@@ -(\d+)", diff, re.M)[1])
    for line in diff[diff.index("\n@@"):].split("\n")[2:]:
        if line[:1] in "+-":
            break
        number += 1
    return path, number


def attempt(options):
    """Changes of one's own: each file is a diff of one file of the library."""
    suite = Suite(options)
    diffs = {Path(file): first_changed_line(Path(file).read_text()) for file in sorted(options.files)}
    tests = {name for path, number in diffs.values() for name in suite.candidates(path, number)}
    suite.control({path for path, _ in diffs.values()}, tests)

    def one(thread, thing):
        diff, (path, number) = thing
        target = WORK / f"{options.copy}-worker{thread}.c"
        patch = ["patch", "-s", "-o", str(target), str(suite.tree / path), str(diff.resolve())]
        said, code, _ = command(patch, WORK, 60)
        if code != 0:
            raise Problem(f"{diff}: {said}")
        verdict = suite.judge(path, target.read_text(), number, WORK / f"{options.copy}-worker{thread}")
        print(f"{diff.name} {path}:{number}: {said_of(verdict)}", flush=True)

    share(options.jobs, diffs.items(), one)


def report(options):
    results, counts, state = known(), {}, state_of(ROOT)
    print("| number | place | change | state |\n| --- | --- | --- | --- |")
    for index, mutant in enumerate(draw(options), 1):
        verdict = results.get(mutant.key())
        if not verdict:
            said = "not run"
        else:
            said = verdict["state"] + (f" by {verdict['by']}" if verdict["state"] == "killed" else "")
            said += "" if verdict["tree"] == state else ", at another state of the tree"
        counts[said] = counts.get(said, 0) + 1
        if not said.startswith(("killed by an assertion", "killed by a crash")):
            line, new = (text.strip().replace("|", "\\|") for text in (mutant.line, mutant.new))
            print(f"| {index} | `{mutant.path}:{mutant.number}` | `{line}` to `{new}` | {said} |")
    print("\n" + "; ".join(f"{count} {said}" for said, count in sorted(counts.items())))


def show(options):
    for index, mutant in enumerate(draw(options), 1):
        print(f"{index:3} {mutant.path}:{mutant.number} {mutant.kind}")
        print(f"    - {mutant.line.strip()}\n    + {mutant.new.strip()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("list", "cover", "run", "try", "report"):
        one = commands.add_parser(name)
        if name in ("list", "run", "report"):
            one.add_argument("--seed", type=int, default=SEED, help="of another draw")
            one.add_argument("--count", type=int, default=COUNT, help="how many it draws")
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
    try:
        {"list": show, "cover": cover, "run": run, "try": attempt, "report": report}[options.command](options)
    except Problem as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main()
