#!/usr/bin/env python3
"""A trace is what the Trace Event Format asks for, as far as rota uses it: each event has what its phase needs, slices
of a track lie in one another or apart, both ends of a flow lie in slices and it goes on in time, a counter is of whole
numbers that are not negative and ends at 0. trace_check.py FILE [chain|wide|train]: also the flows and counters of such
a graph of rota-bench replay. Where Perfetto's trace processor is at hand it must read the file without an error."""
import collections
import json
import shutil
import subprocess
import sys

NUMBER = (int, float)
# By phase: what must be there, and of which type.
NEEDED = {
    "X": {"name": str, "cat": str, "pid": int, "tid": int, "ts": NUMBER, "dur": NUMBER, "args": dict},
    "M": {"name": str, "pid": int, "args": dict},
    "C": {"name": str, "pid": int, "ts": NUMBER, "args": dict},
    "s": {"name": str, "cat": str, "id": int, "pid": int, "tid": int, "ts": NUMBER},
    "f": {"name": str, "cat": str, "id": int, "pid": int, "tid": int, "ts": NUMBER, "bp": str},
}
METADATA = {"process_name": ("name", str), "thread_name": ("name", str), "thread_sort_index": ("sort_index", int)}
HAZARDS = {"RAW", "WAR", "WAW", "memory", "after"}
NS = 0.0005  # times are microseconds with three digits


def judge_fields(event):
    """Faults of one event by itself."""
    needed = NEEDED.get(event.get("ph"))
    if needed is None:
        return [f"unknown phase: {event}"]
    faults = [f"{name} is missing or of a wrong type: {event}" for name, kind in needed.items()
              if not isinstance(event.get(name), kind) or isinstance(event.get(name), bool)]
    faults += [f"{name} belongs to no event of this phase: {event}" for name in event
               if name not in needed and name not in ("ph", "tid")]
    if not faults and event["ph"] == "X" and event["dur"] < 0:
        faults.append(f"it takes less than no time: {event}")
    if not faults and event["ph"] == "M":
        name, kind = METADATA.get(event["name"], ("", type(None)))
        if not isinstance(event["args"].get(name), kind):
            faults.append(f"unknown metadata: {event}")
    if not faults and event["ph"] == "C":
        faults += [f"no whole number of bytes: {event}" for value in event["args"].values()
                   if not isinstance(value, int) or value < 0]
    return faults


def judge_tracks(tracks):
    """Slices of one track: where two overlap, one lies in the other."""
    faults = []
    for track, slices in tracks.items():
        around = []
        for begin, end, event in sorted(slices, key=lambda s: (s[0], -s[1])):
            while around and around[-1] <= begin + NS:
                around.pop()
            if around and end > around[-1] + NS:
                faults.append(f"a slice of track {track} begins in another and ends after it: {event}")
            around.append(end)
    return faults


def slice_around(tracks, event):
    """The shortest slice in whose time an end of a flow lies."""
    found = [s for s in tracks.get((event["pid"], event["tid"]), [])
             if s[0] - NS < event["ts"] < s[1] - NS or abs(s[0] - event["ts"]) < NS]
    return min(found, key=lambda s: s[1] - s[0], default=None)


def judge_flows(events, tracks):
    """Faults, and the nodes that flows lead from and to."""
    faults, pairs, ends = [], [], collections.defaultdict(dict)
    for event in events:
        if event["ph"] in "sf":
            if event["ph"] in ends[event["id"]]:
                faults.append(f"twice: {event}")
            ends[event["id"]][event["ph"]] = event
    for both in ends.values():
        if set(both) != {"s", "f"}:
            faults.append(f"a flow has one end: {both}")
            continue
        start, finish = both["s"], both["f"]
        around = [slice_around(tracks, end) for end in (start, finish)]
        alike = start["name"] == finish["name"] and start["cat"] == finish["cat"]
        if not alike or finish["bp"] != "e" or start["name"] not in HAZARDS:
            faults.append(f"its ends are not of one flow: {both}")
        elif None in around:
            faults.append(f"it begins or ends in no slice: {both}")
        elif start["ts"] > finish["ts"] + NS:
            faults.append(f"it goes back in time: {both}")
        else:
            pairs.append(tuple(s[2]["args"].get("node") for s in around))
    return faults, pairs


def judge_counters(events):
    faults, last, most = [], {}, 0
    for event in events:
        if event["ph"] == "C":
            key = event["pid"], event["name"]
            if key in last and event["ts"] < last[key]["ts"]:
                faults.append(f"a counter goes back in time: {event}")
            last[key] = event
            most = max(most, *event["args"].values())
    return faults + [f"it does not end at 0: {event}" for event in last.values() if any(event["args"].values())], most


def judge_graph(kind, nodes, pairs, most):
    """What is known of rota-bench's graphs."""
    if kind == "chain" and sorted(pairs) != [(n, n + 1) for n in range(len(nodes) - 1)]:
        return [f"a chain's flows lead from each of {len(nodes)} nodes to the next, not {sorted(pairs)[:20]}"]
    if kind == "wide" and pairs:
        return [f"nodes that have nothing to do with one another have flows: {pairs[:20]}"]
    if kind == "train" and (len(pairs) < len(nodes) or not most):
        return [f"{len(pairs)} flows of {len(nodes)} nodes, at most {most} bytes in use"]
    return []


def main():
    trace = json.load(open(sys.argv[1], encoding="utf-8"))
    events = trace["traceEvents"]
    faults = [fault for event in events for fault in judge_fields(event)]
    if not faults:
        tracks = collections.defaultdict(list)
        for event in events:
            if event["ph"] == "X":
                tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"], event))
        flow_faults, pairs = judge_flows(events, tracks)
        counter_faults, most = judge_counters(events)
        nodes = [event for event in events if event["ph"] == "X" and event["cat"] == "node"]
        faults = judge_tracks(tracks) + flow_faults + counter_faults
        faults += judge_graph((sys.argv[2:] or [""])[0], nodes, pairs, most)
        if not nodes:
            faults.append("there are no nodes")
    processor = shutil.which("trace_processor_shell")
    if processor and not faults:
        query = "select value from stats where severity = 'error' and value > 0"
        asked = subprocess.run([processor, "--query-string", query, sys.argv[1]],
                               capture_output=True, text=True, check=False)
        if asked.returncode or any(line.strip().isdigit() for line in asked.stdout.splitlines()):
            faults.append(f"Perfetto's trace processor: {asked.stdout}{asked.stderr}")
    print("\n".join(f"{sys.argv[1]}: {fault}" for fault in faults[:20]) or
          f"{sys.argv[1]}: {len(events)} events, all as they should be")
    return 1 if faults else 0


sys.exit(main())
