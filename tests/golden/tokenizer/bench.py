#!/usr/bin/env python3
"""Megabytes a second of the program and of the Python package `tokenizers`, on one core and the same text.

Usage: bench.py TOKENIZER_BENCH [--rounds N] [--text FILE] [MODEL_FOLDER...]

TOKENIZER_BENCH is the program of that name. Without a file the text is this repository's documents and sources, a
megabyte, and as much of the strings that are hard on tokenizers. Without folders it takes the recorded tokenizers
and the bundled one. Both sides take turns; the best round of each counts, since only disturbance makes one slower.
"""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer, __version__  # noqa: E402

import compare_live  # noqa: E402
import strings  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
MEGABYTE = 1 << 20


def default_text():
    files = sorted(p for folder in ("docs", "src", "tools") for p in (ROOT / folder).rglob("*")
                   if p.suffix in (".md", ".h", ".cpp"))
    prose = "\n".join(p.read_text() for p in files).encode()[:MEGABYTE].decode(errors="ignore")
    hard = "\n".join(strings.generate(7, 9000)).encode()[:MEGABYTE].decode(errors="ignore")
    return prose + hard


def ours(program, folder, text_file):
    """Bytes a second of encoding and of decoding."""
    environment = {**os.environ, "TAGALONG_BENCH_MODEL": str(folder), "TAGALONG_BENCH_TEXT": str(text_file)}
    command = [program, "--benchmark_filter=^(encode|decode)$", "--benchmark_format=json", "--benchmark_min_time=0.2"]
    report = json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)
    return [row["bytes_per_second"] for row in report["benchmarks"]]


def theirs(tokenizer, text):
    begin = time.perf_counter()
    # The way without offsets, which ours does not make either.
    ids = tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids
    middle = time.perf_counter()
    tokenizer.decode(ids, skip_special_tokens=False)
    end = time.perf_counter()
    size = len(text.encode())
    return [size / (middle - begin), size / (end - middle)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--text", type=pathlib.Path)
    options = parser.parse_intermixed_args()
    text = options.text.read_text() if options.text else default_text()
    print("%.2f MB, tokenizers %s, MB/s (ours, theirs, ratio)" % (len(text.encode()) / 1e6, __version__))
    with tempfile.NamedTemporaryFile() as file:
        file.write(text.encode())
        file.flush()
        for folder in compare_live.folders(options.folders):
            reference = Tokenizer.from_file(str(folder / "tokenizer.json"))
            best = [[0.0, 0.0], [0.0, 0.0]]
            for _ in range(options.rounds):
                for side, speeds in enumerate((ours(options.program, folder, file.name), theirs(reference, text))):
                    best[side] = list(map(max, best[side], speeds))
            row = "  ".join("%s %6.1f %6.1f %5.1fx" % (what, best[0][i] / 1e6, best[1][i] / 1e6, best[0][i] / best[1][i])
                            for i, what in enumerate(("encode", "decode")))
            print("%-12s %s" % (folder.name, row))


if __name__ == "__main__":
    main()
