"""Checks an exported model against transformers.

    python verify_export.py MODEL_DIR

transformers opens the configuration and the tokenizer; its GlmMoeDsaForCausalLM, filled with the
dequantised weights, must give the logits of the training model. The sample is fixed: the first 512
tokens of each text in MODEL_DIR/eval. Limits come from the reference itself:

- products in float32: no logit farther from transformers in float64 than four times the farthest
  of transformers in float32 (the rule of tests/golden);
- products in bfloat16: transformers under bfloat16 autocast rounds the operands and results of the
  same products, so its distance from its own float32 shows what that rounding does to this model.
  Ours may be twice as far: twice in the logits and in changed first choices, both linear in the
  error, and four times in the KL divergence, which is quadratic.
"""

import argparse
import json
import sys
from pathlib import Path

import torch
from transformers import AutoConfig, AutoTokenizer

import kernels
from checkpoint import load_storyteller, read_dequantised, stack_experts

GOLDEN = Path(__file__).resolve().parent.parent / "tests/golden"
sys.path[1:1] = [str(GOLDEN), str(GOLDEN / "glm_moe_dsa")]
from reference import build, float64_everywhere  # noqa: E402

CONTEXT = 512
TEXT = (
    "The old house stood at the end of the lane, and nobody had lived there since the winter of the "
    "great snow. “You will not find him there,” said the boy, looking up at the dark windows."
)


def load_transformers(model_dir, dtype=torch.float32):
    """transformers' model with the dequantised weights; float64 needs float64_everywhere() around its use."""
    config = json.loads((Path(model_dir) / "config.json").read_text(encoding="utf-8"))
    return build(config, stack_experts(read_dequantised(model_dir)), dtype)


def check_files(model_dir):
    limit = 16_000_000
    size = sum(f.stat().st_size for f in Path(model_dir).rglob("*") if f.is_file())
    print(f"directory: {size} bytes (limit {limit})")
    assert size <= limit


def check_tokenizer(model_dir):
    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    ids = tokenizer(TEXT)["input_ids"]
    assert tokenizer.decode(ids) == TEXT, "decode(encode(text)) differs from text"
    messages = [{"role": "user", "content": "Once upon"}, {"role": "assistant", "content": "a time"}]
    chat = tokenizer.apply_chat_template(messages, tokenize=False)
    assert chat == "Once upon\n\na time", chat
    assert tokenizer.eos_token_id == 0 and len(tokenizer) == 4096
    return tokenizer


def sample(model_dir, tokenizer):
    """The beginnings of the evaluation texts: [texts, CONTEXT] token ids."""
    texts = sorted((Path(model_dir) / "eval").glob("*.txt"))
    beginnings = [text.read_text(encoding="utf-8")[: 8 * CONTEXT] for text in texts]
    return torch.tensor([tokenizer(b, truncation=True, max_length=CONTEXT)["input_ids"] for b in beginnings])


def distances(name, ours, theirs):
    """Prints and returns how far `ours` [texts, tokens, vocabulary] is from `theirs`."""
    difference = (ours - theirs).abs()
    log_theirs, log_ours = theirs.log_softmax(-1), ours.log_softmax(-1)
    kl = (log_theirs.exp() * (log_theirs - log_ours)).sum(-1)
    changed = int((ours.argmax(-1) != theirs.argmax(-1)).sum())
    found = {"largest": float(difference.max()), "mean": float(difference.mean()), "kl": float(kl.mean()),
             "changed": changed}
    print(f"{name}: logits differ by at most {found['largest']:.1e}, mean {found['mean']:.1e} (their spread is "
          f"{theirs.std():.2f}); KL mean {found['kl']:.1e}, max {kl.max():.1e}; top-1 changed at {changed} of "
          f"{kl.numel()} tokens")
    return found


def demand(name, value, reference, factor):
    assert value <= factor * reference, f"{name} is {value:.2e}, limit {factor} times the reference's {reference:.2e}"


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model_dir")
    args = parser.parse_args()
    torch.set_num_threads(1)

    check_files(args.model_dir)
    ids = sample(args.model_dir, check_tokenizer(args.model_dir))
    AutoConfig.from_pretrained(args.model_dir)
    with float64_everywhere():
        exact = load_transformers(args.model_dir, torch.float64)(ids).logits
    theirs = load_transformers(args.model_dir)
    plain = theirs(ids).logits
    with torch.autocast("cpu", torch.bfloat16):
        rounded = theirs(ids).logits.float()
    ours = load_storyteller(args.model_dir)

    reference = distances("transformers, float32 from float64", plain.double(), exact)
    kernels.set_product_type(torch.float32)
    found = distances("training model, float32 from float64", ours.logits(ids).double(), exact)
    demand("the largest difference in float32", found["largest"], reference["largest"], 4)

    reference = distances("transformers, bfloat16 from float32", rounded, plain)
    kernels.set_product_type(torch.bfloat16)
    found = distances("training model, bfloat16 from float32", ours.logits(ids), plain)
    for name, factor in ("mean", 2), ("changed", 2), ("kl", 4):
        demand(f"'{name}' in bfloat16", found[name], reference[name], factor)
    print("export verified")


if __name__ == "__main__":
    main()
