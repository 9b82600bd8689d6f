#!/usr/bin/env python3
"""Every listing of README.md and of docs/*.md compiles as it stands: a whole program by itself, a part of one in a
function where what its page has before is declared. Kernels' are the examples'. Python's are run by the package's
tests, rota.hpp's by test_cpp, what CMake is told by test_install. test_listings.py SOURCE BUILD"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# What the page has before a listing, by how that begins; what stands at the top of the file, and whether the listing is
# a function's body.
BEFORE = {
    "rota_runtime *runtime;": ("enum { COUNT = 1000 };", "", True),
    "const rota_access accesses[] =": (
        "", "extern const rota_kernel logistic; rota_recorder *recorder = 0; rota_buffer *from = 0, *to = 0;"
            "struct { uint32_t count; float rate; } params = {1, 2}; const rota_param_binding binding = {0, {1}};",
        True),
    "rota_op_matmul(tape": (
        "", "rota_tape *tape = 0; rota_tensor x = {0}, w = {0}, logits, labels = {0}, loss;"
            "rota_tensor grad = {0}, m = {0}, v = {0}; rota_slot lr = {1}, step = {2};", True),
    "static rota_status snake_gradient": (
        "rota_status snake_node(rota_tape *, const rota_op_use *, const rota_tensor *, const rota_tensor *);"
        "static rota_status snake_gradient(rota_tape *tape, const rota_op_use *use);"
        "rota_status (*used)(rota_tape *, const rota_op_use *) = snake_gradient;", "", False),
    "const rota_external_point frame": (
        "", "rota_external_timeline *timeline = 0, *results = 0; rota_plan *plan = 0; rota_ticket ticket;", True),
    "const rota_vulkan_device theirs": (
        "#define VK_API_VERSION_1_3 0x403000u\nvoid lock_queue(void *); void unlock_queue(void *);",
        "rota_runtime *runtime = 0; rota_device *device; void *instance = 0, *physical = 0, *vulkan = 0;"
        "int info = 0, queue_mutex = 0;", True),
    "TRY(rota_external_timeline_adopt": (
        "", "rota_external_timeline *frames, *results; rota_plan *plan = 0; rota_ticket ticket;"
        "rota_device *device = 0; void *drawn = 0, *computed = 0;", True),
    "for (int round = 0;": ("", "rota_plan *plan = 0, *shared_plan = 0; int rounds = 3;", True),
}
TRY = '#define TRY(call) do { if ((call) != ROTA_OK) return 1; } while (0)\n'
ELSEWHERE = {"", "sh", "python", "cmake", "{toctree}", "{literalinclude}"}  # the first two: for a shell


def listings(page):
    return re.findall(r"^```(\S*)[^\n]*\n(.*?)^```$", page, re.M | re.S)


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


def judge(name, page, root, build, folder):
    faults, seen = [], 0
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
        elif language in ELSEWHERE or language == "c++" and "rota::" in text:
            continue
        else:
            said = f"a listing in '{language}', of which nothing is known"
        seen += 1
        if said:
            faults.append(f"{name}: '{first}': {said}")
    return faults, seen


def main():
    root, build = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    faults, seen = [], 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for path in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
            more, count = judge(path.relative_to(root), path.read_text(encoding="utf-8"), root, build, folder)
            faults += more
            seen += count
        # It notices: what does not compile, and what nobody has said how to compile.
        for text in ("```c\nfor (int round = 0; round < rounds; round++) rota_submit(plan);\n```\n",
                     "```c\nrota_new_call(plan);\n```\n", "```glsl\n#version 460\nvoid main() { x = 1; }\n```\n",
                     "```fortran\nEND\n```\n"):
            if len(judge("planted", text, root, build, folder)[0]) != 1:
                faults.append(f"a planted listing went unnoticed: {text}")
    quickstart = (root / "examples/basics/quickstart.c").read_text()
    if listings((root / "README.md").read_text())[1][1].rstrip() not in quickstart:
        faults.append("README.md: its second listing is not in examples/basics/quickstart.c")
    if seen < 9:
        faults.append(f"only {seen} listings were seen")
    for fault in faults:
        print(f"FAILED: {fault}")
    print(f"{seen} listings compile" if not faults else f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
