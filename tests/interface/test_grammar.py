#!/usr/bin/env python3
"""Every exported call keeps the grammar that docs/guide.md states: its name is a family's or a verb's of the page, its
first argument the thing that it is about, its outputs are last and called out_..., what it gives stands in the page's
table with the one verb that ends it, and has a verb of making in its name where that is its caller's to call; and no
call of the page is gone. What is deprecated has the arguments of what is called instead. test_grammar.py ROOT"""
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests/kit")]
import exports  # noqa: E402
import report  # noqa: E402

# What is held by pointer, and changes as it is used.
HANDLES = {f"rota_{name}" for name in ("runtime", "device", "buffer", "graph", "recorder", "tape", "plan", "args",
                                       "rewriter", "external_timeline", "graph_file", "communicator", "sharding",
                                       "host_run")}
SIZES = {"size_bytes", "capacity"}  # of memory that the call fills, which they follow
# Read and written, or written later: the page says why.
BOTH = {("rota_backward", "grads"), ("rota_backward_losses", "grads"), ("rota_op_apply", "use"),
        ("rota_op_submit", "use"), ("rota_value_bind", "bindings"), ("rota_value_bind", "count"),
         ("rota_args_set_output", "data"), ("rota_stream_signal", "stream"), ("rota_stream_wait", "stream"),
         ("rota_stream_follow", "stream"),
         ("rota_op_gradient", "grads"), ("rota_external_timeline_adopt", "semaphore"),
         ("rota_tensor_from_dlpack", "managed"),
        ("rota_plan_explain", "text"), ("rota_plan_explain_kernel", "text"), ("rota_tensor_describe", "text")}
# First arguments that are not of the family's own name.
FIRST = {
    "access_mode": {"rota_access_mode"}, "buffer_kind": {"rota_buffer_kind"}, "dtype": {"rota_dtype"},
    "status": {"rota_status"}, "op": {"rota_tape"}, "gradient": {"rota_tape"}, "record": {"rota_recorder"},
    "node": {"rota_recorder"}, "shape": {"rota_op_use", "rota_tensor", "rota_dtype"}, "log": {"rota_log"},
    "stream": {"rota_device"}, "devices": {"rota_runtime", "void"}, "kernel": {"char", "uint32_t"}, "kernels": {"void"},
    "host": {"rota_host_run"},
}
# And those that the page excepts by name.
EXCEPTED = {
    "rota_tensor_of": "rota_buffer", "rota_record_contiguous": "rota_tape", "rota_op_at": "uint32_t",
    "rota_op_count": "void", "rota_op_find": "char", "rota_op_get_example": "rota_op", "rota_op_fail": "rota_op",
    "rota_op_submit": "rota_device", "rota_device_choice": "rota_runtime", "rota_value_plain": "double",
    "rota_value_slot": "rota_slot", "rota_value_constant": "double",
}


class Call:
    """A call, from its declaration."""

    def __init__(self, declaration):
        self.is_deprecated = "deprecated(" in declaration
        declaration = re.sub(r"\s*__attribute__.*", "", declaration)
        result, self.name, parameters = re.fullmatch(r"(.*?)(\w+)\((.*)\)", declaration).groups()
        self.result = result.strip()
        self.parameters = []
        for text in parameters.split(", "):
            bare = re.sub(r"\b(const|struct)\b ?", "", text).strip()
            found = re.fullmatch(r"(\w+)( ?\**) ?(\w*)", bare)
            kind, stars, name = found.groups() if found else (bare, "", "")
            self.parameters.append((kind, stars.strip(), name, "const" in text))

    @property
    def first(self):
        return self.parameters[0][0]

    def gives(self):
        """The thing that it gives by a pointer's pointer; None: none."""
        kind, stars, name, _ = self.parameters[-1]
        is_thing = stars == "**" and name.startswith("out_") and kind.startswith("rota_")
        return kind.removeprefix("rota_") if is_thing else None


def section(page):
    return re.search(r"^## The grammar of the calls\n(.*?)^## ", page, re.M | re.S)[1]


def read_page(page):
    """What the page says: {thing: [(makers, ender)]}, families, verbs."""
    text = section(page)
    things, families, thing = {}, [], None
    for row in re.findall(r"^\|(.*)\|$", text, re.M):
        cells = [cell.strip() for cell in row.split("|")]
        if len(cells) == 3 and "rota_" in cells[1]:
            thing = re.sub("`", "", cells[0]) or thing
            enders = re.findall(r"`(rota_\w+)`", cells[2])
            things.setdefault(thing, []).append((re.findall(r"`(rota_\w+)`", cells[1]), enders[0] if enders else None))
        elif len(cells) == 2:
            families += re.findall(r"`(\w+)`", cells[0])
    verbs = re.findall(r"`(rota_\w+)`", text[text.index("**Without a thing**"):])
    return things, families, verbs


def paragraph(page, begin):
    """One of the grammar's, by how it begins."""
    return re.search(rf"^\*\*{begin}\*\*(.*?)\n\n", section(page), re.M | re.S)[1]


def family_of(name, families):
    """The longest family that the name begins with."""
    fitting = [family for family in families if name == f"rota_{family}" or name.startswith(f"rota_{family}_")]
    return max(fitting, key=len, default=None)


def judge_name(call, families, verbs, makers):
    family = None if call.name in verbs else family_of(call.name, families)
    if call.name in verbs:
        return []
    if family is None:
        return [f"{call.name} is of no family, and no verb, of the page"]
    if call.name in makers:  # from what it is made comes first
        return []
    expected = {EXCEPTED[call.name]} if call.name in EXCEPTED else FIRST.get(family, {f"rota_{family}"})
    if call.first not in expected:
        return [f"{call.name}: its first argument is {call.first}, not {' or '.join(sorted(expected))}"]
    return []


def judge_arguments(call):
    faults, seen_out = [], False
    for kind, stars, name, is_const in call.parameters:
        is_out = name.startswith("out_")
        if seen_out and not is_out and name not in SIZES:
            faults.append(f"{call.name}: {name} stands behind what is written")
        seen_out |= is_out
        is_handle = stars == "*" and kind in HANDLES
        if stars and not is_const and not is_out and not is_handle and name not in ("user", "") and \
                (call.name, name) not in BOTH:
            faults.append(f"{call.name}: {name} may be written to, and isn't called out_...")
        if is_out and not stars:
            faults.append(f"{call.name}: {name} is called out_..., and is no pointer")
    if re.search(r"_(is|has)_", call.name) and call.result != "_Bool":
        faults.append(f"{call.name} answers {call.result}, not yes or no")
    if call.name.endswith(("_release", "_retain", "_destroy")) and (call.result != "void" or len(call.parameters) != 1):
        faults.append(f"{call.name} takes more than the thing, or gives something")
    if call.name.endswith("_into") and not call.name.startswith("rota_op_"):
        faults.append(f"{call.name} is no op")
    return faults


def judge_ends(calls, things):
    """What is given has a row, and what has a row has one verb that ends it."""
    faults, by_name = [], {call.name: call for call in calls}
    given = {maker: thing for thing, rows in things.items() for makers, _ in rows for maker in makers}
    for call in calls:
        thing = call.gives()
        if thing and given.get(call.name) != thing:
            faults.append(f"{call.name} gives a {thing}, and is not in the page's table")
        last = re.fullmatch(r"rota_(?:(\w+)_)?(release|close|destroy)", call.name)
        if last and call.name not in {ender for rows in things.values() for _, ender in rows}:
            faults.append(f"{call.name} ends something, and is not in the page's table")
        if last and last[2] == "close" and call.result != "void" and call.parameters[-1][2] != "timeout_ns":
            faults.append(f"{call.name} can fail, and has no deadline")
        if call.name.endswith("_retain") and call.name.replace("_retain", "_release") not in by_name:
            faults.append(f"{call.name} without a release")
    for thing, rows in things.items():
        enders = {ender for _, ender in rows if ender}
        if len(enders) != 1:
            faults.append(f"{thing} is ended by {sorted(enders)}")
        for makers, ender in rows:
            faults += [f"the page names {name}, which is not there" for name in (*makers, ender)
                       if name and name not in by_name]
    if sum(name.endswith("_destroy") for name in by_name) > 1:
        faults.append("destroy ends two things")
    return faults


def judge_makers(calls, things, page):
    """A verb of making is in the names of those that give what their callers end, and of no others."""
    faults, text = [], paragraph(page, "Who ends it is in the name.")
    making = set(re.findall(r"`(\w+)`", re.search(r"\((.*?)\)", text, re.S)[1]))
    excepted = re.findall(r"the \w+ of ((?:`rota_\w+` )+)ends with", " ".join(text.split()))
    excepted = set(re.findall(r"rota_\w+", " ".join(excepted)))
    given = {maker: ender for rows in things.values() for makers, ender in rows for maker in makers}
    for call in calls:
        # What an op gives is its graph's: a broadcast from a rank is no tensor from something.
        is_made = bool(making & set(call.name.split("_"))) and not call.name.startswith("rota_op_")
        if call.name in given and given[call.name] and not is_made:
            faults.append(f"{call.name} gives what its caller ends, and none of {' '.join(sorted(making))} says so")
        if is_made and call.name not in excepted and not given.get(call.name):
            faults.append(f"{call.name} is named as what gives what its caller ends, and nothing of that is in the "
                          "page's table")
    return faults


def judge_deprecated(calls, page):
    """What is deprecated is so on the page as well, and is called as what is called instead."""
    faults, by_name = [], {call.name: call for call in calls}
    pairs = dict(re.findall(r"`(rota_\w+)`\s\(`(rota_\w+)`\)", paragraph(page, "Deprecated")))
    for call in calls:
        if call.is_deprecated != (call.name in pairs):
            faults.append(f"{call.name} is deprecated {'by its header' if call.is_deprecated else 'on the page'} alone")
    for old, new in pairs.items():
        if new not in by_name or by_name[new].is_deprecated:
            faults.append(f"{old}: {new}, which is called instead, is not there")
        elif old in by_name and by_name[old].parameters != by_name[new].parameters:
            faults.append(f"{old} has other arguments than {new}")
    return faults


def judge(declarations, page):
    things, families, verbs = read_page(page)
    calls = [Call(declaration) for declaration in declarations]
    faults = judge_deprecated(calls, page)
    calls = [call for call in calls if not call.is_deprecated]
    makers = {maker for rows in things.values() for makers, _ in rows for maker in makers}
    faults += [fault for call in calls for fault in judge_name(call, families, verbs, makers) + judge_arguments(call)]
    names = {call.name for call in calls}
    faults += [f"the page names {verb}, which is not there" for verb in verbs if verb not in names]
    faults += [f"the page has the family {family}, of which there is no call" for family in families
               if not any(family_of(name, families) == family for name in names)]
    return faults + judge_ends(calls, things) + judge_makers(calls, things, page), len(calls)


def check_itself(declarations, page):
    """A call of each fault is noticed, and so is a page that says something else."""
    planted = {
        "rota_status rota_thing_do(rota_tape *tape)": "no family",
        "rota_status rota_plan_look(rota_tape *tape)": "its first argument is rota_tape",
        "rota_status rota_plan_look(rota_plan *plan, uint32_t *out_count, uint32_t index)": "stands behind",
        "rota_status rota_plan_look(rota_plan *plan, uint32_t *count)": "isn't called out_",
        "uint32_t rota_plan_is_there(const rota_plan *plan)": "not yes or no",
        "rota_status rota_plan_copy(rota_plan *plan, rota_plan **out_plan)": "not in the page's table",
        "void rota_plan_destroy(rota_plan *plan)": "destroy ends two things",
        "rota_status rota_plan_close(rota_plan *plan)": "has no deadline",
        "void rota_tape_retain(rota_tape *tape)": "without a release",
        "rota_status rota_graph_create_node(rota_graph *graph)": "is named as what gives",
        'void rota_plan_look(rota_plan *plan) __attribute__((deprecated("call rota_wait")))': "by its header alone",
    }
    missed = [f"{declaration}: '{what}' went unnoticed" for declaration, what in planted.items()
              if not any(what in fault for fault in judge([*declarations, declaration], page)[0])]
    for old, new, what in (("`rota_graph_create`", "`rota_graph_make`", "rota_graph_make, which is not there"),
                           ("`rota_poll` ", "", "rota_poll is of no family"),
                           ("- (its graph's end)", "`rota_plan_release`", "buffer is ended by"),
                           ("- (its graph's end)", "`rota_buffer_release`", "rota_graph_buffer gives what its caller"),
                           ("`create` `open`", "`create`", "rota_runtime_open gives what its caller ends"),
                           ("the device of `rota_device_open`", "no device", "rota_device_open is named as what gives"),
                           ("(`rota_tape_create_on`)", "(`rota_wait`)", "rota_device_tape has other arguments"),
                           ("(`rota_tape_create_on`)", "(`rota_tape_on`)", "which is called instead, is not there"),
                           ("`rota_device_tape` (", "`rota_poll` (", "rota_poll is deprecated on the page alone")):
        if not any(what in fault for fault in judge(declarations, page.replace(old, new))[0]):
            missed.append(f"the page with {new or 'nothing'} for {old} went unnoticed")
    return missed


def main():
    declarations, page = exports.declarations(), (ROOT / "docs/guide.md").read_text(encoding="utf-8")
    faults, seen = judge(declarations, page)
    if not faults:
        faults = check_itself(declarations, page)
    if seen < 300:
        faults.append(f"only {seen} calls were seen")
    report.end(faults, f"{seen} calls keep the page's grammar")


main()
