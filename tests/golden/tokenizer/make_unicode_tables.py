#!/usr/bin/env python3
"""Writes src/tokenizer/unicode_tables.inc: what the Python package `tokenizers` takes each code point for.

The regex engine and the normaliser inside that package carry two different Unicode versions, and neither is
that of the C libraries of a stable distribution. Ids must be equal to the last one, so the tables are measured
from the package itself:

  * character classes (letter, mark, number, ...) by splitting a string of all code points,
  * the behaviour of the normalisers by normalising probes around each code point.

Usage: make_unicode_tables.py > src/tokenizer/unicode_tables.inc
"""
import unicodedata

from tokenizers import Regex, __version__, normalizers, pre_tokenizers

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
# The order is that of enum CharClass in unicode.h.
CLASSES = ["Lu", "Ll", "Lt", "Lm", "Lo", "M", "Nd", "N", "P", "S"]
NFC = normalizers.NFC().normalize_str
NFD = normalizers.NFD().normalize_str


def matching(pattern):
    """The code points that the package's regex engine matches."""
    splitter = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    found = set()
    for start in range(0, len(CODE_POINTS), 20000):
        text = "".join(map(chr, CODE_POINTS[start : start + 20000]))
        for piece, _ in splitter.pre_tokenize_str(text):
            found.update(map(ord, piece))
    return found


def class_of_each():
    result = {}
    for index, name in enumerate(CLASSES, start=1):
        for c in matching("\\p{%s}" % name):
            result.setdefault(c, index)
    for c in matching("\\s"):
        assert c not in result
        result[c] = len(CLASSES) + 1
    return result


def ranges(values):
    """Runs of consecutive code points with equal value, as (first, last, value); zero is left out."""
    runs = []
    for c in sorted(values):
        if runs and runs[-1][1] == c - 1 and runs[-1][2] == values[c]:
            runs[-1][1] = c
        else:
            runs.append([c, c, values[c]])
    return runs


def alone(normalizer):
    """What the normaliser makes of each code point by itself, where that is another text."""
    changed = {}
    for start in range(0, len(CODE_POINTS), 5000):
        part = CODE_POINTS[start : start + 5000]
        # Nothing joins, or trades places, with a line end.
        lines = normalizer.normalize_str("\n".join(map(chr, part))).split("\n")
        if len(lines) != len(part):  # the line end is one of them
            lines = [normalizer.normalize_str("a%sa" % chr(c))[1:-1] for c in part]
        changed.update({c: line for c, line in zip(part, lines) if line != chr(c)})
    return changed


def lower_case():
    """The lower case of characters that Unicode 14 has none for, as ranges (first, last) to the first of it."""
    lower = alone(normalizers.Lowercase())
    assert all(lower.get(c, chr(c)) == chr(c).lower() or chr(c).lower() == chr(c) for c in CODE_POINTS)
    assert lower[0x130] == "i\u0307" and all(len(text) == 1 for c, text in lower.items() if c != 0x130)
    runs = []
    for c in sorted(c for c in lower if lower[c] != chr(c).lower()):
        to = ord(lower[c])
        if runs and runs[-1][1] == c - 1 and runs[-1][2] + c - runs[-1][0] == to:
            runs[-1][1] = c
        else:
            runs.append([c, c, to])
    return runs


def compatibility(second, added):
    """What NFD, NFKC and NFKD may change, and what only a library of a later Unicode version would change."""
    decomposed = alone(normalizers.NFKD())
    dirty = {c: 1 for c in CODE_POINTS if c in decomposed or moves(c) or c in second}
    later = {c: 1 for c in CODE_POINTS if c >= 0x300 and c not in dirty
             and (unicodedata.combining(chr(c)) or unicodedata.normalize("NFKD", chr(c)) != chr(c) or c == 0x11930
                  or c in added)}
    # The library knows what the package does not, and never the other way round.
    assert all(unicodedata.normalize("NFKD", chr(c)) == text for c, text in decomposed.items())
    return dirty, later


def moves(c):
    """Whether NFC gives the code point a combining class other than zero."""
    # Marks of classes 220 and 230 on either side: a starter stays where it is, a mark of any class trades
    # places with one of the two, or is put before or after both.
    probes = ["\u0301" + chr(c) + "\u0323", "\u0323" + chr(c) + "\u0301", chr(c) + "\u0323", chr(c) + "\u0334"]
    probes += ["\u0345" + chr(c), "\u0301" + chr(c)]
    return any(NFC("\u0378" + p) != "\u0378" + p for p in probes)


def main():
    classes = class_of_each()
    second = set()
    for c in CODE_POINTS:
        decomposed = unicodedata.decomposition(chr(c))
        if decomposed and not decomposed.startswith("<"):
            parts = [int(x, 16) for x in decomposed.split()]
            if len(parts) == 2 and NFC(chr(parts[0]) + chr(parts[1])) == chr(c):
                second.add(parts[1])
    second.update(range(0x1161, 0x1176))
    second.update(range(0x11A8, 0x11C3))
    dirty = {c: 1 for c in CODE_POINTS if moves(c) or NFC(chr(c)) != chr(c) or c in second}
    # Starters for the package that a library of a later Unicode version would reorder or compose.
    later = {}
    for c in CODE_POINTS:
        if c in dirty or c < 0x300:
            continue
        is_part = any(unicodedata.normalize("NFC", a + chr(c)) != a + chr(c) for a in ("\U00011935",))
        if unicodedata.combining(chr(c)) or unicodedata.normalize("NFC", chr(c)) != chr(c) or is_part:
            later[c] = 1
        # Assigned after this Python's Unicode version: nothing is known, so let no library touch it.
        elif unicodedata.category(chr(c)) == "Cn" and classes.get(c) in (CLASSES.index("M") + 1,):
            later[c] = 1
    added = {c: v for c, v in classes.items() if unicodedata.category(chr(c)) == "Cn"}

    compat_dirty, compat_later = compatibility(second, added)
    removed = {c: 1 for c, text in alone(normalizers.StripAccents()).items()}
    assert {c: 1 for c in CODE_POINTS if normalizers.Strip().normalize_str("a" + chr(c)) == "a"} == {
        c: 1 for c, v in classes.items() if v == len(CLASSES) + 1}

    print("// Written by tests/golden/tokenizer/make_unicode_tables.py from the package tokenizers %s;" % __version__)
    print("// what was added since 14 is relative to Unicode %s. Do not edit." % unicodedata.unidata_version)
    print("// clang-format off")
    tables = [(name, ranges(values)) for name, values in (
        ("ClassRange kClassRanges", classes),
        ("ClassRange kAddedSince14", added),
        ("ClassRange kNfcChanges", dirty),
        ("ClassRange kNfcOpaque", later),
        ("ClassRange kCompatChanges", compat_dirty),
        ("ClassRange kCompatOpaque", compat_later),
        ("ClassRange kAccents", removed),
    )]
    for name, runs in tables + [("CaseRange kLowerSince14", lower_case())]:
        print("constexpr %s[] = {" % name)
        line = ""
        for first, last, value in runs:
            item = ("{0x%X,0x%X,0x%X}," if name.startswith("Case") else "{0x%X,0x%X,%d},") % (first, last, value)
            if len(line) + len(item) > 106:
                print("  " + line)
                line = ""
            line += item
        print("  " + line + "};")
    print("// clang-format on")


if __name__ == "__main__":
    main()
