"""Continues a text with an exported model: python sample.py MODEL_DIR "Once upon a time" [--tokens 200]

Every step runs the whole context again; this is for a look at the model, not for speed.
"""

import argparse

import torch
from tokenizers import Tokenizer

from checkpoint import load_storyteller

CONTEXT = 512


def choose(logits, temperature, top_p):
    """Samples from the smallest set of tokens whose probabilities reach top_p."""
    probabilities, ids = torch.softmax(logits / temperature, dim=-1).sort(descending=True)
    before = probabilities.cumsum(0) - probabilities
    probabilities[before > top_p] = 0
    return ids[torch.multinomial(probabilities, 1)].item()


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model_dir")
    parser.add_argument("prompt")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--top-p", type=float, default=0.95)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)

    model = load_storyteller(args.model_dir)
    tokenizer = Tokenizer.from_file(f"{args.model_dir}/tokenizer.json")
    ids = tokenizer.encode(args.prompt).ids
    for _ in range(args.tokens):
        logits = model.logits(torch.tensor([ids[-CONTEXT:]]))[0, -1]
        token = choose(logits, args.temperature, args.top_p)
        if token == 0:
            break
        ids.append(token)
    print(tokenizer.decode(ids))


if __name__ == "__main__":
    main()
