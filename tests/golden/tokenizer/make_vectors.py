#!/usr/bin/env python3
"""Records what the Python package `tokenizers` makes of many strings, for tests without Python.

Usage: make_vectors.py NAME=TOKENIZER_JSON...

Writes beside itself: strings.jsonl.xz (the strings, one JSON string a line), and for each tokenizer NAME.hashes
(for each string, then for each string around an added token, in the order of their ids: the 64-bit FNV-1a hash
of the ids as little-endian 32-bit words; a second file NAME.decoded.hashes: of the bytes of the decoded text; a
third, NAME.offsets.hashes: of the first and the last character of each token, one of 32 bits) and NAME.sample.json
(all ids and offsets of some strings, for a human who looks for a difference). And normalizers.json: for each
normaliser of normalizers.py the hash of what it makes of each block of texts, the texts joined by line ends.
"""
import json
import lzma
import pathlib
import struct
import sys

from tokenizers import Tokenizer

import normalizers
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


def record_normalizers(texts):
    rows = []
    for spec in normalizers.ALL:
        normalizer = normalizers.build(spec)
        hashes = ["%08x" % (fnv1a("\n".join(map(normalizer.normalize_str, block)).encode()) & 0xFFFFFFFF)
                  for block in normalizers.blocks(texts)]
        rows.append(json.dumps({"normalizer": spec, "hashes": " ".join(hashes)}, ensure_ascii=False))
    (HERE / "normalizers.json").write_text("[\n" + ",\n".join(rows) + "\n]\n")


def main():
    texts = strings.generate(SEED, COUNT)
    lines = "".join(json.dumps(text, ensure_ascii=False) + "\n" for text in texts)
    (HERE / "strings.jsonl.xz").write_bytes(lzma.compress(lines.encode(), preset=9 | lzma.PRESET_EXTREME))
    record_normalizers(texts)
    for argument in sys.argv[1:]:
        name, path = argument.split("=", 1)
        tokenizer = Tokenizer.from_file(path)
        around = [text for token in added_tokens(tokenizer) for text in strings.around(token)]
        encodings = tokenizer.encode_batch(texts + around)
        ids = [encoding.ids for encoding in encodings]
        offsets = [[place for token in encoding.offsets for place in token] for encoding in encodings]
        decoded = [tokenizer.decode(row, skip_special_tokens=False) for row in ids]
        with open(HERE / (name + ".hashes"), "wb") as file:
            for row in ids:
                file.write(struct.pack("<Q", fnv1a(struct.pack("<%di" % len(row), *row))))
        with open(HERE / (name + ".decoded.hashes"), "wb") as file:
            for text in decoded:
                file.write(struct.pack("<I", fnv1a(text.encode()) & 0xFFFFFFFF))
        with open(HERE / (name + ".offsets.hashes"), "wb") as file:
            for row in offsets:
                file.write(struct.pack("<I", fnv1a(struct.pack("<%di" % len(row), *row)) & 0xFFFFFFFF))
        sample = [{"text": texts[i], "ids": ids[i], "offsets": offsets[i]} for i in SAMPLE]
        rows = ",\n".join(json.dumps(row, ensure_ascii=False) for row in sample)
        (HERE / (name + ".sample.json")).write_text("[\n" + rows + "\n]\n")
        print(name, len(ids), "strings,", sum(map(len, ids)), "ids")


if __name__ == "__main__":
    main()
