"""Bits per byte of an exported model on text, NVFP4 rounding included.

    python evaluate.py MODEL_DIR TEXT... [--context 512] [--stride 256] [--checkpoint CHECKPOINT.pt]

TEXT is a corpus file (.xz or plain, books separated by `<|endoftext|>`) or several plain texts.
Each book is read by itself, after one separator token. A window slides by `stride`; only its last
`stride` tokens count, so that apart from a book's beginning every token sees at least
`context - stride` tokens before it. With --checkpoint the training weights are measured instead,
before any rounding, with the tokenizer of MODEL_DIR.
"""

import argparse
import math

import numpy as np
import torch
from tokenizers import Tokenizer

from checkpoint import load_storyteller
from model import Storyteller
from tokenizer import encode_books, read_books


@torch.no_grad()
def negative_log_likelihood(model, ids, context, stride):
    """Total in nats of ids[1:]; the model never sees more than `context` tokens at once."""
    total, begin, scored = 0.0, 0, 0
    while scored < len(ids) - 1:
        end = min(begin + context, len(ids) - 1)
        window = torch.from_numpy(ids[begin : end + 1].astype(np.int64)).unsqueeze(0)
        log_probs = torch.log_softmax(model.logits(window[:, :-1])[0], dim=-1)
        losses = -log_probs.gather(1, window[0, 1:].unsqueeze(1))
        total += losses[scored - begin :].double().sum().item()
        scored = end
        begin += stride
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model_dir")
    parser.add_argument("texts", nargs="+")
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--stride", type=int, default=256)
    parser.add_argument("--checkpoint")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    if args.checkpoint:
        model = Storyteller()
        model.load_state_dict(torch.load(args.checkpoint, weights_only=True)["model"])
    else:
        model = load_storyteller(args.model_dir)
    tokenizer = Tokenizer.from_file(f"{args.model_dir}/tokenizer.json")
    nats = bytes_read = tokens = 0
    for text in args.texts:
        for book in read_books(text):
            ids = encode_books(tokenizer, [book])
            size = len(book.encode())
            loss = negative_log_likelihood(model, ids, args.context, args.stride)
            print(f"{loss / size / math.log(2):.4f} bits per byte, {size} bytes: {book[:50]!r}", flush=True)
            nats, bytes_read, tokens = nats + loss, bytes_read + size, tokens + len(ids) - 1
    print(f"{nats / bytes_read / math.log(2):.4f} bits per byte over {bytes_read} bytes, "
          f"{nats / tokens:.4f} nats per token over {tokens} tokens")


if __name__ == "__main__":
    main()
