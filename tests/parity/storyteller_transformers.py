"""Compares logits printed by the server's binary with transformers on the bundled model.

    python storyteller_transformers.py ids OUT.txt [--tokens 512]
    tagalong logits models/storyteller --kv-type f32 --ids OUT.txt --out LOGITS.bin
    python storyteller_transformers.py compare OUT.txt LOGITS.bin

`ids` writes the first tokens of an evaluation text, as numbers separated by spaces. LOGITS.bin is
raw float32 [tokens, vocabulary]. transformers runs in float32 on the dequantised weights.

The binary multiplies NVFP4 experts with activations rounded to eight bits, one power of two for sixteen.
What that rounding does to the model is found by doing the same to the inputs of transformers' own
experts. The binary may be twice as far from plain transformers: twice in the logits, four times in
the KL divergence, which is quadratic in the error. The cache in float32 leaves that rounding the only one.
"""

import argparse
import sys
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from transformers import AutoTokenizer
from transformers.models.glm_moe_dsa.modeling_glm_moe_dsa import GlmMoeDsaExperts

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "training"))

from verify_export import demand, distances, load_transformers  # noqa: E402

TEXT = "eval/the_wind_in_the_willows.txt"
GROUP = 16  # activations that share a scale


def write_ids(model_dir, out, count):
    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    text = (model_dir / TEXT).read_text(encoding="utf-8")
    ids = tokenizer(text, truncation=True, max_length=count)["input_ids"]
    out.write_text(" ".join(map(str, ids)) + "\n")
    print(f"{len(ids)} token ids written")


def round_to_int8(x):
    """In groups of 16, in the least power of two of which the largest magnitude is at most 127 when rounded."""
    groups = x.unflatten(-1, (-1, GROUP))
    steps = groups.abs().amax(-1, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny) / 127.496
    scales = torch.exp2(steps.log2().ceil())
    return ((groups / scales).round() * scales).flatten(-2)


@contextmanager
def experts_in_int8():
    """Within it, the inputs of all products of transformers' routed experts are rounded."""
    plain_forward, plain_linear = GlmMoeDsaExperts.forward, torch.nn.functional.linear

    def forward(self, *inputs):
        with mock.patch("torch.nn.functional.linear", lambda x, w: plain_linear(round_to_int8(x), w)):
            return plain_forward(self, *inputs)

    with mock.patch.object(GlmMoeDsaExperts, "forward", forward):
        yield


@torch.no_grad()
def compare(model_dir, ids_file, logits_file):
    ids = torch.tensor([[int(word) for word in ids_file.read_text().split()]])
    model = load_transformers(model_dir)
    plain = model(ids).logits
    with experts_in_int8():
        rounded = model(ids).logits
    raw = np.fromfile(logits_file, dtype="<f4")
    assert raw.size == plain.numel(), f"expected {plain.numel()} values {list(plain.shape)}, found {raw.size}"
    ours = torch.from_numpy(raw).view(plain.shape)
    assert torch.isfinite(ours).all(), "a logit is not finite"

    reference = distances("transformers, int8 experts from float32", rounded, plain)
    distances("the binary from transformers, int8 experts", ours, rounded)
    found = distances("the binary from transformers in float32", ours, plain)
    for name, factor in ("mean", 2), ("kl", 4):
        demand(f"'{name}' of the binary", found[name], reference[name], factor)
    print("the binary agrees with transformers")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", type=Path, default=ROOT / "models" / "storyteller")
    commands = parser.add_subparsers(dest="command", required=True)
    ids = commands.add_parser("ids")
    ids.add_argument("out", type=Path)
    ids.add_argument("--tokens", type=int, default=512)
    both = commands.add_parser("compare")
    both.add_argument("ids", type=Path)
    both.add_argument("logits", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.command == "ids":
        write_ids(args.model, args.out, args.tokens)
    else:
        compare(args.model, args.ids, args.logits)


if __name__ == "__main__":
    main()
