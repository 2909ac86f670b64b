"""Measures llama.cpp on a GGUF file: whole decode steps at several batch sizes, and one prefill.

    python bench_llama_cpp.py FILE.gguf [-b 1,4,16,64] [--steps 6] [--prefill 512] [--threads 2]

Each of B sequences gets one random token per step, as `tagalong bench MODEL --random-tokens` does; all
B rows of logits are asked for. Prints one line of JSON: medians in tokens per second, and the peak of
the process's memory. The library is the package llama-cpp-python, built for this machine.
"""

import argparse
import ctypes
import json
import random
import resource
import statistics
import time

import llama_cpp as llama


def seconds_of(context, batch):
    start = time.perf_counter()
    if llama.llama_decode(context, batch) != 0:
        raise SystemExit("llama_decode failed")
    llama.llama_synchronize(context)
    return time.perf_counter() - start


def fill(batch, rows):
    """rows: (token, position, sequence, whether its logits are wanted)."""
    batch.n_tokens = len(rows)
    for i, (token, position, sequence, wanted) in enumerate(rows):
        batch.token[i] = token
        batch.pos[i] = position
        batch.n_seq_id[i] = 1
        batch.seq_id[i][0] = sequence
        batch.logits[i] = wanted


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("-b", "--batches", default="1,4,16,64")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--prefill", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    batches = [int(b) for b in args.batches.split(",")]

    quiet = llama.llama_log_callback(lambda level, text, data: None)
    llama.llama_log_set(quiet, ctypes.c_void_p(0))
    llama.llama_backend_init()
    model_params = llama.llama_model_default_params()
    model = llama.llama_model_load_from_file(args.file.encode(), model_params)
    if not model:
        raise SystemExit(f"cannot load {args.file}")
    params = llama.llama_context_default_params()
    params.n_ctx = max(args.prefill, max(batches) * 64)
    params.n_batch = params.n_ubatch = max(args.prefill, max(batches))
    params.n_seq_max = max(batches)
    params.kv_unified = True
    params.n_threads = params.n_threads_batch = args.threads
    context = llama.llama_init_from_model(model, params)
    vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
    batch = llama.llama_batch_init(params.n_batch, 0, 1)
    draw = random.Random(1)

    result = {"file": args.file, "decode": {}}
    for size in batches:
        llama.llama_memory_clear(llama.llama_get_memory(context), True)
        times = []
        for step in range(args.steps + 1):  # the first warms up
            fill(batch, [(draw.randrange(vocabulary), step, s, True) for s in range(size)])
            times.append(seconds_of(context, batch))
        result["decode"][size] = size / statistics.median(times[1:])
    times = []
    for _ in range(2):
        llama.llama_memory_clear(llama.llama_get_memory(context), True)
        last = args.prefill - 1
        fill(batch, [(draw.randrange(vocabulary), p, 0, p == last) for p in range(args.prefill)])
        times.append(seconds_of(context, batch))
    result["prefill"] = args.prefill / min(times)
    result["peak_rss_bytes"] = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps(result))


if __name__ == "__main__":
    main()
