"""Measures Tagalong and llama.cpp in turns, each time in a fresh process, and prints the ratios.

    python compare.py --program BIN/tagalong --model SYNTH_DIR [--rounds 3] FILE.gguf...

SYNTH_DIR comes from `tagalong synth`, the GGUF files of the same shape from make_gguf.py. In each round
every engine runs once, in the order given; a figure is the median over the rounds, so that a machine
whose speed changes from minute to minute changes it for all.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"exit code {done.returncode}: {' '.join(map(str, command))}")
    return json.loads(done.stdout)


def measure_tagalong(args):
    report = run([args.program, "bench", args.model, "-b", args.batches, "--random-tokens", "--prefill", "512",
                  "--rounds", "2", "--threads", str(args.threads), "--json"])
    rates = {"prefill" if case["prefill"] else str(case["rows"]): case["tokens_per_second"] for case in report["cases"]}
    return rates | {"GB": report["peak_rss_bytes"] / 1e9}


def measure_llama_cpp(args, file):
    report = run([sys.executable, Path(__file__).with_name("bench_llama_cpp.py"), file, "-b", args.batches,
                  "--threads", str(args.threads)])
    return report["decode"] | {"prefill": report["prefill"], "GB": report["peak_rss_bytes"] / 1e9}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("files", nargs="+")
    parser.add_argument("-b", "--batches", default="1,4,16,64")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()

    engines = {"tagalong": lambda: measure_tagalong(args)}
    for file in args.files:
        engines[Path(file).stem] = lambda file=file: measure_llama_cpp(args, file)
    samples = {name: [] for name in engines}
    for _ in range(args.rounds):
        for name, measure in engines.items():
            samples[name].append(measure())
    columns = [*args.batches.split(","), "prefill", "GB"]
    medians = {name: {c: statistics.median(s[c] for s in seen) for c in columns} for name, seen in samples.items()}

    print("tokens/s, medians of", args.rounds, "fresh processes; GB: peak of the process")
    print("".join(f"{c:>12}" for c in ["", *columns]))
    for name, found in medians.items():
        print(f"{name:>12}" + "".join(f"{found[c]:>12.2f}" if c == "GB" else f"{found[c]:>12.1f}" for c in columns))
    for name in list(engines)[1:]:
        ratios = {c: medians["tagalong"][c] / medians[name][c] for c in columns}
        print(f"{'/ ' + name:>12}" + "".join(f"{ratios[c]:>11.2f}x" for c in columns))


if __name__ == "__main__":
    main()
