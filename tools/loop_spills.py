#!/usr/bin/env python3
"""Counts what the kernels' inner loops move between vector registers and the stack.

    tools/loop_spills.py build/dev/bin/kernels_bench [REGEX]

For every function whose name matches REGEX (default: the product tiles and attention), the innermost loops of at
least 20 instructions: vector instructions in all, and those that read or write the stack. A tile that keeps its
running sums in registers has none. Needs objdump.
"""
import re
import subprocess
import sys

STACK = re.compile(r"\(%[re]?[sb]p[,)]")
VECTOR = re.compile(r"%[xyz]mm\d+")
JUMP = re.compile(r"^j\w+\s+([0-9a-f]+)")
SMALLEST_LOOP = 20


def functions(program):
    """Yields (name, [(address, instruction)])."""
    dump = subprocess.run(["objdump", "-d", "-C", "--no-show-raw-insn", program], check=True, capture_output=True,
                          text=True).stdout
    for block in dump.split("\n\n"):
        head, _, body = block.lstrip("\n").partition("\n")
        name = re.match(r"[0-9a-f]+ <(.*)>:$", head)
        if not name:
            continue
        code = [re.match(r"\s*([0-9a-f]+):\s+(.*)", line) for line in body.split("\n")]
        yield name.group(1), [(int(m.group(1), 16), m.group(2)) for m in code if m]


def innermost_loops(code):
    """Ranges of indices from a backward jump's target to the jump, that hold no other such range."""
    index = {address: i for i, (address, _) in enumerate(code)}
    ranges = []
    for i, (address, text) in enumerate(code):
        jump = JUMP.match(text)
        if jump and int(jump.group(1), 16) <= address and int(jump.group(1), 16) in index:
            ranges.append((index[int(jump.group(1), 16)], i + 1))
    return [r for r in ranges if not any(o != r and r[0] <= o[0] and o[1] <= r[1] for o in ranges)]


def main():
    program = sys.argv[1]
    wanted = re.compile(sys.argv[2] if len(sys.argv) > 2 else r"_tile|_rows<|multiply_add")
    print("stack  vector  loop of  function")
    for name, code in functions(program):
        if "kernels::" not in name or not wanted.search(name):
            continue
        short = re.sub(r"tagalong::kernels::|\(anonymous namespace\)::|^void |\(.*", "", name.replace("(tagalong::kernels::Compute)", ""))
        for first, last in innermost_loops(code):
            vectors = [text for _, text in code[first:last] if VECTOR.search(text)]
            if last - first < SMALLEST_LOOP or not vectors:
                continue
            print(f"{sum(bool(STACK.search(t)) for t in vectors):5}  {len(vectors):6}  {last - first:7}  {short}")


main()
