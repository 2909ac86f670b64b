#!/usr/bin/env python3
"""Compares the program with the Python packages `tokenizers` and `jinja2` on fresh random input.

Usage: compare_live.py TAGALONG [--seed N] [--count N] [--template FILE...] [MODEL_FOLDER...]

TAGALONG is the program. Without folders it compares the tokenizers recorded beside this script and the bundled
one, and the bundled one with every normaliser. The templates are those of ../template, of the folders, and the
given ones. Ends with 1, and prints the seed and the input, at the first difference.
"""
import argparse
import json
import lzma
import pathlib
import random
import subprocess
import sys
import tempfile

from tokenizers import Tokenizer

import normalizers
import strings

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "template"))
import conversations  # noqa: E402
import environment  # noqa: E402
import language  # noqa: E402


def run(command, lines):
    """The output of the program, one JSON value a line in and out."""
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    result = subprocess.run(command, input=text.encode(), stdout=subprocess.PIPE, check=True)
    outputs = [json.loads(line) for line in result.stdout.decode().split("\n") if line]
    assert len(outputs) == len(lines), "%d lines in, %d out" % (len(lines), len(outputs))
    return outputs


def fail(what, seed, given, found, expected):
    sys.exit("%s, seed %d: %r\n  found    %r\n  expected %r" % (what, seed, given, found, expected))


def folders(given):
    if given:
        yield from map(pathlib.Path, given)
        return
    yield HERE.parents[2] / "models" / "storyteller"
    with tempfile.TemporaryDirectory() as scratch:
        for packed in sorted(HERE.glob("*.json.xz")):
            folder = pathlib.Path(scratch) / packed.name.split(".")[0]
            folder.mkdir()
            (folder / "tokenizer.json").write_bytes(lzma.decompress(packed.read_bytes()))
            yield folder


def compare_tokenizer(program, folder, seed, count):
    reference = Tokenizer.from_file(str(folder / "tokenizer.json"))
    r = random.Random(seed)
    texts = strings.generate(seed, count)
    for _, token in sorted(reference.get_added_tokens_decoder().items()):
        texts.append(r.choice(texts) + token.content + r.choice(texts))
    expected = [e.ids for e in reference.encode_batch(texts, add_special_tokens=False)]
    found = run([program, "tokenize", str(folder), "--batch", "--no-special"], texts)
    for text, a, b in zip(texts, found, expected):
        if a != b:
            fail(folder.name, seed, text, a, b)
    # Ids that no text gives: parts of characters, control tokens anywhere.
    known = sorted(reference.get_vocab().values())
    rows = [r.choices(known, k=r.randint(0, 20)) for _ in range(count)]
    decoded = run([program, "tokenize", str(folder), "--batch"], rows)
    for row, a in zip(rows, decoded):
        b = reference.decode(row, skip_special_tokens=False)
        if a != b:
            fail(folder.name + " decoding", seed, row, a, b)
    print("%s: %d strings, %d ids, %d lists of random ids, all equal" % (
        folder.name, len(texts), sum(map(len, expected)), len(rows)))


def compare_normalizers(program, seed, count):
    source = json.loads((HERE.parents[2] / "models" / "storyteller" / "tokenizer.json").read_text())
    texts = strings.generate(seed + 2, count)
    with tempfile.TemporaryDirectory() as folder:
        for spec in normalizers.ALL:
            text = json.dumps({**source, "normalizer": spec})
            (pathlib.Path(folder) / "tokenizer.json").write_text(text)
            expected = [e.ids for e in Tokenizer.from_str(text).encode_batch(texts)]
            found = run([program, "tokenize", folder, "--batch"], texts)
            for given, a, b in zip(texts, found, expected):
                if a != b:
                    fail("normalizer %s" % json.dumps(spec), seed, given, a, b)
    print("normalizers: %d of them, %d strings each, all equal" % (len(normalizers.ALL), len(texts)))


def templates(folders, files):
    """The sources of the recorded templates and the given ones, by name."""
    paths = sorted((HERE.parent / "template").glob("*.jinja")) + list(files)
    result = {str(path): path.read_text() for path in paths}
    for folder in folders:
        config = pathlib.Path(folder) / "tokenizer_config.json"
        template = json.loads(config.read_text()).get("chat_template") if config.exists() else None
        if isinstance(template, str):
            result[str(config)] = template
    return result


def random_conversations(seed, count):
    """Messages of the recorded conversations, with other texts and in other orders."""
    r = random.Random(seed)
    texts = strings.generate(seed + 1, 500)
    pool = [m for messages in conversations.MESSAGES.values() for m in messages]
    for _ in range(count):
        messages = []
        for message in r.choices(pool, k=r.randint(1, 8)):
            message = dict(message)
            for key in ("content", "reasoning_content", "thinking"):
                if isinstance(message.get(key), str) and r.random() < 0.7:
                    message[key] = r.choice(texts)
            messages.append(message)
        yield {"messages": messages, **r.choice(conversations.VARIANTS), **conversations.TOKENS}


def compare_templates(program, seed, count, sources):
    contexts = list(random_conversations(seed, max(1, count // len(sources))))
    for name, source in sources.items():
        # The clock of the recorded templates stands still; the program's does not.
        source = source.replace("strftime_now(\"%Y-%m-%d\")", "\"2025-12-31\"")
        found = run([program, "template", "--batch"], [[source, context] for context in contexts])
        refused = 0
        for context, a in zip(contexts, found):
            b = environment.render(source, context)
            refused += b is None
            if a != b:
                fail("template " + name, seed, context, a, b)
        print("%s: %d conversations, %d refused by both, all equal" % (
            pathlib.Path(name).name, len(contexts), refused))


def random_expressions(seed, count):
    """Recorded expressions joined by operators, through filters and into branches.

    Not those that give Markup, a string that escapes what it is joined with: the program has plain strings only.
    """
    r = random.Random(seed)
    left_out = ("strftime", "9223", "999", ".format", "safe", "escape", "|e")
    parts = [e for e in language.expressions() if len(e) < 30 and not any(word in e for word in left_out)
             and environment.render("{{ " + e + " }}", language.CONTEXT) is not None]
    for _ in range(count):
        a, b, c = r.choices(parts, k=3)
        yield r.choice([
            "{{ (%s) ~ (%s) }}" % (a, b), "{{ (%s) == (%s) }}" % (a, b), "{{ (%s) + (%s) }}" % (a, b),
            "{{ [%s, %s]|tojson }}" % (a, b), "{{ (%s) if (%s) else (%s) }}" % (a, b, c), "{{ (%s) and (%s) or (%s) }}" % (a, b, c),
            "{{ (%s)|string|length }}" % a, "{%% for x in [%s, %s] %%}{{ loop.index }}{{ x }}{%% endfor %%}" % (a, b),
            "{%% set v = %s %%}{%% if v %%}{{ v }}{%% else %%}{{ %s }}{%% endif %%}" % (a, b), "{{ (%s) in [%s, %s] }}" % (a, b, c),
            "{{ {'k': %s, 'l': [%s]} }}" % (a, b), "{{ (%s)|default(%s) }}" % (a, b),
        ])


def compare_language(program, seed, count):
    sources = list(random_expressions(seed, count))
    found = run([program, "template", "--batch"], [[source, language.CONTEXT] for source in sources])
    for source, a in zip(sources, found):
        b = environment.render(source, language.CONTEXT)
        if a != b:
            fail("expression", seed, source, a, b)
    print("expressions: %d, all equal" % len(sources))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--template", action="append", type=pathlib.Path, default=[])
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--count", type=int, default=5000)
    options = parser.parse_intermixed_args()
    for folder in folders(options.folders):
        compare_tokenizer(options.program, folder, options.seed, options.count)
    compare_normalizers(options.program, options.seed, options.count // 4)
    compare_templates(options.program, options.seed, options.count, templates(options.folders, options.template))
    compare_language(options.program, options.seed, options.count)


if __name__ == "__main__":
    main()
