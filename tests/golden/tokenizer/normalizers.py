"""Normalisers of every kind, and what to try them on. Deterministic."""
import json

from tokenizers import normalizers

# One of each, and one that uses all.
ALL = [
    {"type": "NFC"},
    {"type": "NFD"},
    {"type": "NFKC"},
    {"type": "NFKD"},
    {"type": "Lowercase"},
    {"type": "StripAccents"},
    {"type": "Strip", "strip_left": True, "strip_right": True},
    {"type": "Strip", "strip_left": False, "strip_right": True},
    {"type": "Strip", "strip_left": True, "strip_right": False},
    {"type": "Prepend", "prepend": "\u2581"},
    {"type": "Replace", "pattern": {"String": "a"}, "content": "<\u00e9>"},
    {"type": "Replace", "pattern": {"Regex": "\\s+|\\p{N}"}, "content": ""},
]
ALL.append({"type": "Sequence", "normalizers": [
    {"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}, {"type": "NFC"},
    {"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": " "}, {"type": "Strip", "strip_left": True, "strip_right": True},
    {"type": "Prepend", "prepend": "^"}]})

BLOCK = 4096


def build(spec):
    """The package's normaliser of that description."""
    sequence = normalizers.Sequence([])
    state = json.loads(sequence.__getstate__())
    state["normalizers"] = [spec]
    sequence.__setstate__(json.dumps(state).encode())
    return sequence


def blocks(strings):
    """Lists of texts: 100 of the strings each, then all characters alone and among marks, 4096 each."""
    for start in range(0, len(strings), 100):
        yield strings[start : start + 100]
    for start in range(0, 0x110000, BLOCK):
        block = [chr(c) for c in range(start, start + BLOCK) if not 0xD800 <= c < 0xE000]
        yield ["\n".join(block), "\n".join("e" + c + "\u0323\u0301" for c in block)]
