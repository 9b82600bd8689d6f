#!/usr/bin/env bash
# The run report of train_gpt: one file, well-formed, with what it promises, nothing taken for markup; drawn by a
# browser where there is one.
# test_report.sh BUILD_DIR
set -euo pipefail
train=$1/examples/train_gpt
here=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failures=0
. "$here/cli_support.sh"

text='<img src=x> & "text"'
for _ in $(seq 200); do
  echo "the quick brown fox jumps over the lazy dog; pack my box with five dozen liquor jugs"
done >"$text"
small=(--data "$text" --device cpu --layers 1 --heads 2 --dim 16 --block 16 --batch 4 --warmup 2)
expect 1 "'nowhere/run.html' can't be written" "$train" "${small[@]}" --iters 2 --eval-iters 2 --report nowhere/run.html
expect 0 'the report is in run.html' "$train" "${small[@]}" --iters 20 --eval-interval 8 --eval-iters 2 \
  --report run.html --log run.jsonl
expect 0 'the report is in one.html' "$train" "${small[@]}" --iters 1 --eval-iters 0 --report one.html
absent ./.rota-*.tmp

expect 0 'bound by' "$train" "${small[@]}" --iters 12 --eval-iters 0 --profile
python3 - output <<'PY' || failures=$((failures + 1))
import re, sys
lines = open(sys.argv[1]).read().splitlines()
first = next(i for i, line in enumerate(lines) if line.startswith("a step by kind of node"))
last = next(i for i, line in enumerate(lines) if line.startswith("all "))
rows = [re.fullmatch(r"(.{30}) +(\d+) +([\d.]+) +([\d.]+) %.* (latency|memory|arithmetic|neither|-)", line)
        for line in lines[first + 1:last + 1]]
assert all(rows), lines[first:last + 1]
nodes, times, shares = ([float(row[i]) for row in rows] for i in (2, 3, 4))
assert len(rows) > 8 and max(map(len, lines[first:last + 1])) <= 100
assert sum(nodes[:-1]) == nodes[-1] > 20
assert abs(sum(times[:-1]) - times[-1]) < 0.001 * len(rows) and times[:-2] == sorted(times[:-2], reverse=True)
assert abs(sum(shares[:-1]) - 100) < 0.1 * len(rows) and shares[-1] == 100
assert any(row[1].strip() == "matmul" for row in rows)
assert re.search(r"the step took [\d.]+ ms", lines[last + 1]) and "peaks, as measured" in lines[last + 2]
PY
expect 0 "bound by" "$train" "${small[@]}" --iters 3 --eval-iters 0 --ranks 2 --profile

python3 - run.html one.html <<'PY' || failures=$((failures + 1))
import html.parser, json, sys

class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.ids, self.images, self.data, self.links = [], set(), 0, "", []
    def handle_starttag(self, tag, attributes):
        at = dict(attributes)
        if at.get("id") in self.ids: sys.exit(f"FAILED: id {at['id']} twice")
        self.ids.add(at.get("id", id(at)))
        self.images += tag == "img"
        self.links += [at[k] for k in ("src", "href") if k in at]
        if tag not in ("meta", "br", "img", "link"): self.open.append((tag, at.get("id")))
    def handle_endtag(self, tag):
        assert self.open and self.open[-1][0] == tag, f"FAILED: </{tag}> ends {self.open[-1:]}"
        self.open.pop()
    def handle_data(self, data):
        if self.open and self.open[-1] == ("script", "data"): self.data += data

for name in sys.argv[1:]:
    page = Page()
    page.feed(open(name, encoding="utf-8").read())
    page.close()
    assert not page.open and page.images == 0 and not page.links, (page.open, page.links)
    d = json.loads(page.data)
    assert '<img src=x> & "text"' in dict(d["facts"])["Command"] and dict(d["facts"])["Text"] == '<img src=x> & "text"'
    assert dict(d["facts"])["Build"].startswith(("gcc ", "clang ")), dict(d["facts"])["Build"]
    plan, steps = d["plan"], d["steps"]
    commands = plan["commands"]
    assert len(commands) >= plan["nodes"] > 20
    # Live bytes are what the packer's bound was made from.
    assert max(c[9] for c in commands) == plan["lower"] <= plan["arena"]
    ran = [c for c in commands if c[11] is not None]
    assert len(ran) > 20 and all(0 < c[10] <= c[11] <= d["replay"][3] + 1 for c in ran)
    assert d["replay"] == sorted(d["replay"])
    names = [plan["strings"][c[0]] for c in commands]
    assert any("attention" in n for n in names)
    assert any(plan["strings"][c[2]] == "matmul" and c[8] > 0 for c in commands if c[2] >= 0)
    assert d["peaks"]["bandwidth"] > 1e6 and d["peaks"]["single"] > 1e6 and "measured" in d["peaks"]["how"]
    if name == "run.html":
        lines = [json.loads(line) for line in open("run.jsonl")]
        assert [s[0] for s in steps] == list(range(1, 21))
        for s, l in zip(steps, lines):
            assert abs(s[1] - l["loss"]) < 1e-6 * abs(l["loss"]) and abs(s[3] - l["lr"]) <= 1e-6 * l["lr"]
            assert (s[2] is None) == (l["val_loss"] is None)
        assert sum(s[2] is not None for s in steps) == 3
        # Another step's batch was on its way meanwhile.
        assert any(u[2] < d["replay"][3] and u[3] > d["replay"][0] for u in d["uploads"]), d["uploads"]
    else:
        assert len(steps) == 1 and steps[0][2] is None
PY

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$browser" ]; then
  echo "skipped in a browser: there is no chromium"
else
  for name in run one; do
    timeout 60 "$browser" --headless=new --no-sandbox --disable-gpu --user-data-dir="$work/profile" \
      --window-size=1200,2400 \
      --screenshot="$work/$name.png" --dump-dom "file://$work/$name.html" >"$name.dom" 2>browser.log ||
      { cat browser.log; failures=$((failures + 1)); }
    python3 - "$name.dom" <<'PY' || failures=$((failures + 1))
import re, sys
dom = open(sys.argv[1], encoding="utf-8", errors="replace").read()
assert 'data-ready="yes"' in dom, "FAILED: the page's script did not reach its end"
assert dom.count("<svg") >= 3 and len(re.findall(r"<tr>", dom)) > 15 and "<img" not in dom
assert re.search(r'<canvas[^>]*height="[1-9]', dom), "FAILED: no timeline"
rows = re.search(r'aria-label="Timeline of one step; rows: ([^"]*)"', dom)[1].split("; ")
assert len(rows) >= 2 and all(rows) and len(set(rows)) == len(rows), f"FAILED: a row without a name of its own: {rows}"
key = dom[dom.index('id="timeline-key"'):dom.index('<canvas id="timeline"')]
colours = re.findall(r'background: ?var\(--(\w+)\)', key)
assert "upload" not in colours or colours.count("upload") == 1, f"FAILED: {colours}"
assert ("uploads" in rows) == ("upload" in colours), f"FAILED: uploads have no colour of their own: {rows} {colours}"
shares = [float(s) for s in re.findall(r'<td[^>]*>([0-9.e+-]+) %(?: \*)?<span class="roof"', dom)]
assert shares and max(shares) <= 100, f"FAILED: more than a roofline allows: {shares}"
PY
    # Chromium may write one of the two only.
    if [ -s "$name.png" ] && [ "$(stat -c %s "$name.png")" -lt 20000 ]; then
      echo "FAILED: the screenshot of $name.html is empty"
      failures=$((failures + 1))
    fi
  done
fi
[ "$failures" -eq 0 ]
