"""Compares logits printed by the server's binary with transformers on the bundled model.

    python storyteller_transformers.py ids OUT.txt [--tokens 200]
    tagalong logits models/storyteller --ids OUT.txt --out LOGITS.bin
    python storyteller_transformers.py compare OUT.txt LOGITS.bin

`ids` writes the first tokens of an evaluation text, as numbers separated by spaces. LOGITS.bin is
raw float32 [tokens, vocabulary]. transformers runs in float32 on the dequantised weights, as in
training/verify_export.py, whose versions and helpers this script uses.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import AutoTokenizer

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "training"))

from verify_export import load_transformers  # noqa: E402

TEXT = "eval/the_wind_in_the_willows.txt"


def write_ids(model_dir, out, count):
    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    ids = tokenizer((model_dir / TEXT).read_text(encoding="utf-8"))["input_ids"][:count]
    out.write_text(" ".join(map(str, ids)) + "\n")
    print(f"{len(ids)} token ids written")


@torch.no_grad()
def compare(model_dir, ids_file, logits_file, limits):
    ids = torch.tensor([[int(word) for word in ids_file.read_text().split()]])
    theirs = load_transformers(model_dir)(ids).logits[0]
    raw = np.fromfile(logits_file, dtype="<f4")
    assert raw.size == theirs.numel(), f"expected {theirs.numel()} values {list(theirs.shape)}, found {raw.size}"
    ours = torch.from_numpy(raw).view(theirs.shape)

    difference = (ours - theirs).abs()
    log_theirs, log_ours = theirs.double().log_softmax(-1), ours.double().log_softmax(-1)
    kl = (log_theirs.exp() * (log_theirs - log_ours)).sum(-1)
    agreement = (ours.argmax(-1) == theirs.argmax(-1)).double().mean()
    worst = divmod(int(difference.argmax()), theirs.shape[1])
    print(f"tokens {theirs.shape[0]}, vocabulary {theirs.shape[1]}, spread of logits {theirs.std():.3f}")
    print(f"max abs difference {difference.max():.3e} (position {worst[0]}, token {worst[1]}), mean {difference.mean():.3e}")
    print(f"KL(transformers || binary) mean {kl.mean():.3e}, max {kl.max():.3e} nats")
    print(f"top-1 agreement {agreement:.4f}")
    return torch.isfinite(ours).all() and kl.mean() <= limits.max_kl and agreement >= limits.min_agreement


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    ids = commands.add_parser("ids")
    ids.add_argument("out", type=Path)
    ids.add_argument("--tokens", type=int, default=200)
    both = commands.add_parser("compare")
    both.add_argument("ids", type=Path)
    both.add_argument("logits", type=Path)
    # A binary with BF16 products stays near these; one with float32 products is far better.
    both.add_argument("--max-kl", type=float, default=1e-3)
    both.add_argument("--min-agreement", type=float, default=0.95)
    for command in (ids, both):
        command.add_argument("--model", type=Path, default=ROOT / "models" / "storyteller")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.command == "ids":
        write_ids(args.model, args.out, args.tokens)
    elif not compare(args.model, args.ids, args.logits, args):
        sys.exit("the logits differ by more than allowed")


if __name__ == "__main__":
    main()
