#!/usr/bin/env python3
"""Records what the Python package `tokenizers` makes of many strings, for tests without Python.

Usage: make_vectors.py NAME=TOKENIZER_JSON...

Writes beside itself: strings.jsonl.xz (the strings, one JSON string a line), and for each tokenizer NAME.hashes
(for each string, then for each string around an added token, in the order of their ids: the 64-bit FNV-1a hash
of the ids as little-endian 32-bit words; a second file NAME.decoded.hashes: of the bytes of the decoded text) and
NAME.sample.json (all ids of some strings, for a human who looks for a difference).
"""
import json
import lzma
import pathlib
import struct
import sys

from tokenizers import Tokenizer

import strings

HERE = pathlib.Path(__file__).parent
SEED = 20261129
COUNT = 20000
SAMPLE = range(0, COUNT, 101)


def fnv1a(data):
    state = 0xCBF29CE484222325
    for byte in data:
        state = (state ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return state


def added_tokens(tokenizer):
    return [token.content for _, token in sorted(tokenizer.get_added_tokens_decoder().items())]


def main():
    texts = strings.generate(SEED, COUNT)
    lines = "".join(json.dumps(text, ensure_ascii=False) + "\n" for text in texts)
    (HERE / "strings.jsonl.xz").write_bytes(lzma.compress(lines.encode(), preset=9 | lzma.PRESET_EXTREME))
    for argument in sys.argv[1:]:
        name, path = argument.split("=", 1)
        tokenizer = Tokenizer.from_file(path)
        around = [text for token in added_tokens(tokenizer) for text in strings.around(token)]
        ids = [encoding.ids for encoding in tokenizer.encode_batch(texts + around)]
        decoded = [tokenizer.decode(row, skip_special_tokens=False) for row in ids]
        with open(HERE / (name + ".hashes"), "wb") as file:
            for row in ids:
                file.write(struct.pack("<Q", fnv1a(struct.pack("<%di" % len(row), *row))))
        with open(HERE / (name + ".decoded.hashes"), "wb") as file:
            for text in decoded:
                file.write(struct.pack("<I", fnv1a(text.encode()) & 0xFFFFFFFF))
        sample = [{"text": texts[i], "ids": ids[i]} for i in SAMPLE]
        rows = ",\n".join(json.dumps(row, ensure_ascii=False) for row in sample)
        (HERE / (name + ".sample.json")).write_text("[\n" + rows + "\n]\n")
        print(name, len(ids), "strings,", sum(map(len, ids)), "ids")


if __name__ == "__main__":
    main()
