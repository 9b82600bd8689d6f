#!/usr/bin/env python3
"""Every listing of the tree's pages compiles as it stands: a whole program by itself, a part of one in a function where
what its page has before is declared. Kernels' are the examples'. Python's are on a page that the package's tests run
(python/tests/test_pages.py), rota.hpp's in the guide, whose test_cpp compiles, and CMake's are the calls of the project
that test_install builds. Commands of rota's programs, wherever a page has them, have options that these know.
test_listings.py SOURCE BUILD"""
import ast
import functools
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "kit"))
import report  # noqa: E402

# What the page has before a listing, by how that begins; what stands at the top of the file, and whether the listing is
# a function's body.
BEFORE = {
    "rota_runtime *runtime;": ("enum { COUNT = 1000 };", "", True),
    "const rota_access accesses[] =": (
        "", "extern const rota_kernel logistic; rota_recorder *recorder = 0; rota_buffer *from = 0, *to = 0;"
            "struct { uint32_t count; float rate; } params = {1, 2}; const rota_param_binding binding = {0, {1}};",
        True),
    "rota_device *const devices[] =": (
        "", "rota_runtime *runtime = 0; rota_graph *graph = 0; rota_plan *plan; rota_device *gpu_0 = 0, *gpu_1 = 0;",
        True),
    "static rota_status place(": (
        "static rota_status place(void *user, const rota_placing *placing, uint8_t *out_devices);"
        "rota_placer used = place;", "", False),
    "rota_graph *body;": (
        "", "rota_graph *graph = 0; rota_recorder *recorder = 0; rota_buffer *scratch, *more = 0; uint64_t bytes = 4;"
            "rota_kernel_node step = {0}, residual_is_large = {0};", True),
    "rota_buffer *found;": (
        "", "extern const rota_kernel find, use; rota_recorder *recorder = 0;"
            "rota_buffer *indices = 0, *y = 0, *kept = 0;",
        True),
    "rota_tensor index, count;": (
        "", "rota_tape *tape = 0; rota_recorder *recorder = 0; rota_tensor x = {0}; rota_buffer *kept = 0;", True),
    "rota_op_quantize(tape": (
        "", "rota_tape *tape = 0; rota_tensor x = {0}, w = {0}, a, b, scale_a, scale_b, y;", True),
    "rota_op_matmul(tape": (
        "", "rota_tape *tape = 0; rota_tensor x = {0}, w = {0}, logits, labels = {0}, loss;"
            "rota_tensor grad = {0}, m = {0}, v = {0}; rota_slot lr = {1}, step = {2};", True),
    "static rota_status snake_gradient": (
        "rota_status snake_node(rota_tape *, const rota_op_use *, const rota_tensor *, const rota_tensor *);"
        "static rota_status snake_gradient(rota_tape *tape, const rota_op_use *use);"
        "rota_status (*used)(rota_tape *, const rota_op_use *) = snake_gradient;", "", False),
    "const rota_external_point frame": (
        "", "rota_external_timeline *timeline = 0, *results = 0; rota_plan *plan = 0; rota_ticket ticket;", True),
    "TRY(rota_submit_with(plan, &ROTA_SUBMIT_OPTIONS(.deadline_ns": (
        "", "rota_plan *plan = 0; rota_ticket ticket, other = {0};", True),
    "const rota_vulkan_device theirs": (
        "#define VK_API_VERSION_1_3 0x403000u\nvoid lock_queue(void *); void unlock_queue(void *);",
        "rota_runtime *runtime = 0; rota_device *device; void *instance = 0, *physical = 0, *vulkan = 0;"
        "int info = 0, queue_mutex = 0;", True),
    "TRY(rota_external_timeline_adopt": (
        "", "rota_external_timeline *frames, *results; rota_plan *plan = 0; rota_ticket ticket;"
        "rota_device *device = 0; void *drawn = 0, *computed = 0;", True),
    "TRY(rota_graph_save(": (
        "", "rota_graph *graph = 0; rota_runtime *runtime = 0; rota_plan *plan;"
        "rota_compile_options options = {0};", True),
    "rota_runtime_options options = ROTA_RUNTIME_OPTIONS(.compiled": ("", "rota_runtime *runtime;", True),
    "TRY(rota_graph_file_prepare(": (
        "", "rota_graph_file *file = 0; rota_device *device = 0; rota_plan *plan = 0; rota_args *args = 0;"
        "rota_ticket ticket;", True),
    "for (int i = 0; i < 3; i++) {": (
        "", "rota_plan *plan = 0; rota_args *args = 0; rota_ticket ticket;", True),
    "for (int i = 0; i < 12; i++) {": (
        "", "rota_runtime *runtime = 0; rota_graph *graph = 0; rota_device *devices[2] = {0, 0};"
            "rota_plan *plan; rota_args *args = 0; rota_ticket ticket;", True),
    "for (int round = 0;": ("", "rota_plan *plan = 0, *shared_plan = 0; int rounds = 3;", True),
}
TRY = '#define TRY(call) do { if ((call) != ROTA_OK) return 1; } while (0)\n'
# Programs of a build, which pages show commands of; rota-bench has options by its first word.
PROGRAMS = {"rota-bench": "bench/rota-bench", "train_gpt": "examples/train_gpt",
            "train_patchtst": "examples/train_patchtst", "cg": "examples/cg",
            "bfs": "examples/bfs"}
SEEN_LEAST = {"listings": 20, "commands": 20}


def pages(root):
    """The tree's, without what was built."""
    return [path for path in sorted(root.rglob("*.md"))
            if not any(part.startswith(("build", ".")) for part in path.relative_to(root).parts)]


def listings(page):
    return re.findall(r"^```(\S*)[^\n]*\n(.*?)^```$", page, re.M | re.S)


def commands(page):
    """Of rota's programs: in lines for a shell, and between backquotes."""
    page = page.replace("\\\n", " ")
    names = "|".join(PROGRAMS)
    lines = re.findall(rf"^ *(?:\$ )?(?:build/\w+/)?((?:{names}) [^\n]*)$", page, re.M)
    return lines + [" ".join(words.split()) for words in re.findall(rf"`(?:build/\w+/)?((?:{names})\s[^`]*)`", page)]


def compiled(command, source, name, folder):
    """What the compiler says; empty: it compiles."""
    path = folder / name
    path.write_text(source, encoding="utf-8")
    done = subprocess.run([*command, str(path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout.strip() or f"exit code {done.returncode}" if done.returncode else ""


def file_of(text):
    """A listing in C as a file; None: nothing is known of what comes before it."""
    if "int main(" in text:
        return text
    for begin, (top, body, is_body) in BEFORE.items():
        if text.lstrip().startswith(begin):
            head = f"#include <rota/rota.h>\n#include <stdio.h>\n{TRY}{top}\n"
            return f"{head}int main(int argc, char **argv) {{ (void)argc, (void)argv; {body}\n{text}return 0; }}\n" \
                if is_body else head + text
    return None


@functools.cache
def help_of(program):
    """What a program says of its options; None: it was not built."""
    if not pathlib.Path(program[0]).exists():
        return None
    done = subprocess.run([*program, "--help"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout if done.returncode == 0 else f"--help: exit code {done.returncode}"


def judge_command(command, build):
    words = shlex.split(command.split("#")[0].replace("...", ""))
    program = [str(build / PROGRAMS[words[0]])]
    if words[0] == "rota-bench":
        program += [word for word in words[1:2] if not word.startswith("-") and word != "COMMAND"]
    known = help_of(tuple(program))
    if known is None:
        return []
    if known.startswith("--help: "):
        return [f"`{command}`: {' '.join(program[1:])} {known}"]
    options = [re.match(r"--[\w-]+", word.lstrip("["))[0] for word in words if re.match(r"\[?--\w", word)]
    return [f"`{command}`: {words[0]} has no option {option}" for option in options
            if not re.search(rf"{option}(?![\w-])", known)]


def judge_elsewhere(name, language, text, root):
    """What another test compiles or runs; None: a language of which nothing is known."""
    if language == "python":
        listed = (root / "python/tests/test_pages.py").read_text(encoding="utf-8")
        run = ast.literal_eval(re.search(r"^PAGES = (\{.*?\})$", listed, re.M | re.S)[1])
        return "" if str(name) in run else "python/tests/test_pages.py does not run this page"
    if language == "c++" and "rota::" in text:
        return "" if str(name) == "docs/guide.md" else "test_cpp compiles the guide's alone"
    if language == "cmake":
        client = (root / "tests/interface/client/CMakeLists.txt").read_text(encoding="utf-8")
        for command, first in re.findall(r"^(\w+)\(([^ )]*(?: [\d.]+)?)", text, re.M):
            expected = f"{command}({first}" if command == "find_package" else f"{command}("
            if expected not in client:
                return f"tests/interface/client/CMakeLists.txt has no {expected}"
        return ""
    return "" if language in ("", "sh") or language.startswith("{") else None


def judge(name, page, root, build, folder):
    faults, seen = [], {"listings": 0, "commands": 0}
    for command in commands(page):
        seen["commands"] += 1
        faults += [f"{name}: {fault}" for fault in judge_command(command, build)]
    c = ["cc", "-std=c17", "-Wall", "-Wextra", "-Wno-unused-but-set-variable", "-Werror", "-fsyntax-only", "-I",
         str(build / "include")]
    for language, text in listings(page):
        said, first = "", text.lstrip().split("\n")[0]
        if language == "c":
            source = file_of(text)
            said = compiled(c, source, "listing.c", folder) if source else "what comes before it is not known"
        elif language == "glsl":
            command = ["glslangValidator", "-V", "--quiet", "--target-env", "vulkan1.2", f"-I{root / 'exec/vk'}", "-o",
                       str(folder / "listing.spv")]
            said = compiled(command, text, "listing.comp", folder)
            if text not in (root / "examples/basics/logistic.comp").read_text():
                said = said or "it is not examples/basics/logistic.comp"
        elif "rota_kernel.cuh" in text:
            nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
            if nvcc:
                said = compiled([nvcc, "-std=c++17", "-allow-unsupported-compiler", "-ptx", "-arch=compute_75",
                                 f"-I{root / 'exec/cuda'}", "-o", str(folder / "listing.ptx")],
                                text, "listing.cu", folder)
            if text not in (root / "examples/basics/logistic.cu").read_text():
                said = said or "it is not examples/basics/logistic.cu"
        else:
            said = judge_elsewhere(name, language, text, root)
            if said is None:
                said = f"a listing in '{language}', of which nothing is known"
        seen["listings"] += 1
        if said:
            faults.append(f"{name}: '{first}': {said}")
    return faults, seen


def main():
    root, build = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    faults, seen = [], dict.fromkeys(SEEN_LEAST, 0)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for path in pages(root):
            more, counts = judge(path.relative_to(root), path.read_text(encoding="utf-8"), root, build, folder)
            faults += more
            seen = {what: seen[what] + counts[what] for what in seen}
        # It notices: what does not compile, what nobody runs, and what nobody has said how to compile.
        for text in ("```c\nfor (int round = 0; round < rounds; round++) rota_submit(plan);\n```\n",
                     "```c\nrota_new_call(plan);\n```\n", "```glsl\n#version 460\nvoid main() { x = 1; }\n```\n",
                     "```fortran\nEND\n```\n", "```python\nimport rota\n```\n", "```c++\nrota::graph g;\n```\n",
                     "```cmake\nfind_package(rota 0.1 REQUIRED)\n```\n", "```cmake\nrota_use(app)\n```\n"):
            if len(judge("planted", text, root, build, folder)[0]) != 1:
                faults.append(f"a planted listing went unnoticed: {text}")
        if (build / PROGRAMS["rota-bench"]).exists():
            for text in ("    $ build/bench/rota-bench plan --no-such 1\n", "so `rota-bench\nplan --no-such`.\n",
                         "```sh\nrota-bench \\\n  plan --no-such\n```\n", "`rota-bench no-such --device cpu`"):
                if len(judge("planted", text, root, build, folder)[0]) != 1:
                    faults.append(f"a planted command went unnoticed: {text}")
    quickstart = (root / "examples/basics/quickstart.c").read_text()
    in_c = [text for language, text in listings((root / "README.md").read_text()) if language == "c"]
    if in_c[1].rstrip() not in quickstart:
        faults.append("README.md: its second listing of C is not in examples/basics/quickstart.c")
    faults += [f"only {seen[what]} {what} were seen" for what, least in SEEN_LEAST.items() if seen[what] < least]
    report.end(faults, f"{seen['listings']} listings compile, here or elsewhere; {seen['commands']} commands")


main()
