"""What test_gpt_bpe.sh compares. gpt_bpe_check.py plain|tokenizers GPT_TOOL, in a folder of its own."""
import glob
import json
import os
import random
import subprocess
import sys

mode, tool = sys.argv[1:]
here = os.path.dirname(os.path.abspath(__file__))


def run(*arguments):
    return subprocess.run([tool, *arguments], check=True, capture_output=True).stdout


def awkward():
    """Texts with all kinds of characters, white space and contractions; the same ones each time."""
    rng = random.Random(7)
    letters = "abcdeéßñЖдя漢字かなकखश्रीﬁǅªº٣٤²½Ⅷ0123456789"
    signs = "!?.,;:-_()[]{}'\"’“”€™°§¶<>|~^`@#\\/…—🙂👩‍👩‍👧\u0301\u200d\ufeff"
    spaces = [" ", "  ", "\n", "\t", "\r\n", "\u00a0", "\u2003", "\u3000", "\u180e", "\u200b", "\u2028", "\x85", "\x0b",
              "\x1c", " \n "]
    contractions = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'x", "don't", "it's", "we'll've"]
    texts = ["", " ", "   ", "a", "aaaaaaaaaaaaaaaa", "aaa aaa", " a  b   c    ", "\n\n\n", "x" * 5000, " " * 3000
             + "y", "ab" * 2000]
    for _ in range(300):
        parts = []
        for _ in range(rng.randrange(1, 60)):
            kind = rng.randrange(5)
            if kind == 0:
                parts.append("".join(rng.choice(letters) for _ in range(rng.randrange(1, 9))))
            elif kind == 1:
                parts.append("".join(rng.choice(signs) for _ in range(rng.randrange(1, 5))))
            elif kind == 2:
                parts.append(rng.choice(spaces))
            elif kind == 3:
                parts.append(rng.choice(contractions))
            else:
                parts.append(" " + rng.choice(["the", "quick", "brown", "fox", "return", "static", "naïve",
                                               "Straße"]))
        texts.append("".join(parts))
    return texts


def corpus():
    """The project's own text, and the awkward ones twice, so that their pairs are learned too."""
    names = sorted(glob.glob(here + "/../../*/*.[ch]") + glob.glob(here + "/../../docs/*.md"))
    own = "".join(open(name, encoding="utf-8").read() for name in names)
    return own + "\n".join(awkward()) + "".join(awkward()) + "aaaa aaa aaaaaaa banana bananas " * 20


def check(good, what):
    if not good:
        sys.exit("FAILED: " + what)


def write(name, text):
    with open(name, "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode("utf-8"))


def encoded(text, *files):
    write("text", text)
    return [int(line) for line in run("encode", "text", *files).split()]


def visible():
    """GPT-2's characters for bytes, written from its description."""
    prints = list(range(0x21, 0x7F)) + list(range(0xA1, 0xAD)) + list(range(0xAE, 0x100))
    table, hidden = {}, 0x100
    for byte in range(256):
        if byte in prints:
            table[byte] = chr(byte)
        else:
            table[byte] = chr(hidden)
            hidden += 1
    return table, prints


def plain():
    """A slow learner and encoder: no lists, no heap, everything counted again for each merge. ASCII, whose pieces need
    no tables of Unicode's."""
    import re
    pieces = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\s0-9A-Za-z]+|\s+(?!\S)|\s+", re.ASCII)
    rng = random.Random(3)
    words = ["the", "then", "there", "banana", "aaaa", "aaa", "it's", "don't", "x1", "42", "1999", "...", "->", "  ",
             "\n\n", "\t"]
    text = " ".join(rng.choice(words) for _ in range(4000)) + " aaaaaaaaa"
    table, prints = visible()
    order = prints + [b for b in range(256) if b not in prints]
    strings = [bytes([b]) for b in order]
    number = {s: i for i, s in enumerate(strings)}
    counted = {}
    for piece in pieces.findall(text):
        key = tuple(number[bytes([b])] for b in piece.encode())
        counted[key] = counted.get(key, 0) + 1

    def merged(word, pair, new):
        out, i = [], 0
        while i < len(word):
            if word[i : i + 2] == pair:
                out.append(new)
                i += 2
            else:
                out.append(word[i])
                i += 1
        return tuple(out)

    merges = []
    while len(strings) < 340:
        pairs = {}
        for word, count in counted.items():
            for pair in zip(word, word[1:]):
                pairs[pair] = pairs.get(pair, 0) + count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        if pairs[best] < 2:
            break
        string = strings[best[0]] + strings[best[1]]
        if string not in number:
            number[string] = len(strings)
            strings.append(string)
        merges.append((best, number[string]))
        again = {}
        for word, count in counted.items():
            word = merged(word, best, number[string])
            again[word] = again.get(word, 0) + count
        counted = again
    write("corpus", text)
    run("learn", "corpus", str(len(strings) + 1), "merges.txt")
    lines = open("merges.txt", encoding="utf-8").read().split("\n")[1:-1]
    printed = ["".join(table[b] for b in strings[l]) + " " + "".join(table[b] for b in strings[r]) for (l, r),
               _ in merges]
    check(lines == printed, "the merges differ from the slow learner's at line %d" %
          next((i for i, (a, b) in enumerate(zip(lines, printed)) if a != b), min(len(lines), len(printed))))
    check(len(lines) > 50, "the slow learner made only %d merges" % len(lines))
    for sample in ["the banana then", "aaaaaaaaaa", "x199942...->it's  \n", text[:3000]]:
        expected = []
        for piece in pieces.findall(sample):
            word = tuple(number[bytes([b])] for b in piece.encode())
            for pair, new in merges:
                word = merged(word, pair, new)
            expected += word
        check(encoded(sample, "merges.txt") == expected, "tokens of %r differ from the slow encoder's" % sample[:40])
    # Bytes that are not UTF-8 come back as they were, whatever they are.
    for _ in range(50):
        data = bytes(rng.randrange(256) for _ in range(rng.randrange(400)))
        write("tokens", "\n".join(map(str, encoded(data, "merges.txt"))))
        check(run("decode", "tokens", "merges.txt") == data, "bytes %r don't come back" % data)
    # A file cut short is known by its first line.
    whole = open("merges.txt", "rb").read()
    write("cut.txt", whole[: len(whole) // 2])
    cut = subprocess.run([tool, "encode", "text", "cut.txt"], capture_output=True)
    check(cut.returncode == 1 and b"cut.txt" in cut.stderr and cut.stderr.count(b"\n") == 1,
          "a truncated merges file: %r" % cut.stderr)
    print("the same merges (%d) and tokens as the slow learner and encoder" % len(merges))


def with_tokenizers():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    text = corpus()
    write("corpus", text)
    oracle = Tokenizer(models.BPE())
    oracle.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    oracle.decoder = decoders.ByteLevel()
    oracle.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=6000, min_frequency=2, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    oracle.save("oracle.json")
    model = json.load(open("oracle.json", encoding="utf-8"))["model"]
    theirs = [" ".join(merge) if isinstance(merge, list) else merge for merge in model["merges"]]
    run("learn", "corpus", str(oracle.get_vocab_size() + 1), "merges.txt")
    ours = open("merges.txt", encoding="utf-8").read().split("\n")[1:-1]
    check(len(ours) > 4000, "only %d merges" % len(ours))
    check(ours == theirs, "the merges differ from the tokenizers library's at line %d" %
          next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs))))
    texts = awkward() + [text[i : i + 20000] for i in range(0, 400000, 50000)]
    for sample in texts:
        check(encoded(sample, "merges.txt") == oracle.encode(sample).ids, "tokens of %r differ" % sample[:60])

    # The same tokens under other numbers, with special ones in front, as a vocab.json says.
    rng = random.Random(5)
    names = sorted(oracle.get_vocab(), key=oracle.get_vocab().get)
    rng.shuffle(names)
    names = ["<|endoftext|>", "<|pad|>"] + names
    json.dump({name: i for i, name in enumerate(names)}, open("vocab.json", "w", encoding="utf-8"))
    write("theirs.txt", "#version: 0.2\n" + "\n".join(theirs) + "\n")
    other = Tokenizer(models.BPE.from_file("vocab.json", "theirs.txt"))
    other.pre_tokenizer = oracle.pre_tokenizer
    for sample in texts[:120]:
        ids = other.encode(sample).ids
        check(encoded(sample, "theirs.txt", "vocab.json") == ids, "tokens of %r differ under vocab.json's numbers"
              % sample[:60])
        write("tokens", "\n".join(map(str, ids)))
        check(run("decode", "tokens", "theirs.txt", "vocab.json") == sample.encode(), "%r doesn't come back"
              % sample[:60])
    print("the same merges (%d) and tokens (%d texts) as the tokenizers library" % (len(ours), len(texts)))


plain() if mode == "plain" else with_tokenizers()
