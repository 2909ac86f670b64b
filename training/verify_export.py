"""Checks an exported model against transformers.

    python verify_export.py MODEL_DIR

transformers opens the configuration and the tokenizer; its GlmMoeDsaForCausalLM, filled with the
dequantised weights in float32, must give the logits of the training model: closely when the
training model multiplies in float32 too, and to bfloat16 accuracy in its usual form.
"""

import argparse
from pathlib import Path

import torch
from transformers import AutoConfig, AutoTokenizer, GlmMoeDsaForCausalLM

import kernels
from checkpoint import load_storyteller, read_dequantised, stack_experts

TEXT = (
    "The old house stood at the end of the lane, and nobody had lived there since the winter of the "
    "great snow. “You will not find him there,” said the boy, looking up at the dark windows."
)


def load_transformers(model_dir, attention="eager"):
    config = AutoConfig.from_pretrained(model_dir)
    del config.quantization_config  # the weights given below are no longer quantised
    config._attn_implementation = attention
    model = GlmMoeDsaForCausalLM(config).float().eval()
    missing, unexpected = model.load_state_dict(stack_experts(read_dequantised(model_dir)), strict=False)
    assert not missing and not unexpected, (missing, unexpected)
    return model


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
    return ids


def report(name, ours, theirs):
    difference = (ours - theirs).abs()
    log_theirs, log_ours = theirs.log_softmax(-1), ours.log_softmax(-1)
    kl = (log_theirs.exp() * (log_theirs - log_ours)).sum(-1)
    agreement = (ours.argmax(-1) == theirs.argmax(-1)).float().mean()
    print(f"products in {name}: logits differ by at most {difference.max():.1e}, mean {difference.mean():.1e} "
          f"(their spread is {theirs.std():.2f}); KL mean {kl.mean():.1e}, max {kl.max():.1e}; "
          f"top-1 agreement {agreement:.3f} over {ours.shape[1]} tokens")
    return difference.max(), kl.mean(), agreement


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model_dir")
    args = parser.parse_args()
    torch.set_num_threads(1)

    check_files(args.model_dir)
    ids = torch.tensor([check_tokenizer(args.model_dir)])
    theirs = load_transformers(args.model_dir)(ids).logits
    model = load_storyteller(args.model_dir)
    kernels.set_product_type(torch.float32)
    largest, _, _ = report("float32", model.logits(ids), theirs)
    assert largest < 1e-3
    kernels.set_product_type(torch.bfloat16)
    _, kl, agreement = report("bfloat16", model.logits(ids), theirs)
    assert kl < 2e-3 and agreement > 0.95
    print("export verified")


if __name__ == "__main__":
    main()
