"""Makes the golden set: tiny random qwen3_moe checkpoints and what transformers computes on them.

    python make.py            (versions: requirements.txt; writes beside this file)

Each variant is a Hugging Face directory with `expected.safetensors` and `prompts.json` added; see
README.md for the names. Expected values are computed in float64 from the dequantised weights.
"""

import sys
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import reference  # noqa: E402
from golden_set import RandomTensors, make, modelopt_nvfp4  # noqa: E402

BASE = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 96,
    "moe_intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "num_experts": 16,
    "num_experts_per_tok": 4,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "rope_theta": 10000.0,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "attention_bias": False,
    "tie_word_embeddings": False,
    "use_sliding_window": False,
    "bos_token_id": None,
    "eos_token_id": 0,
    "pad_token_id": 0,
}

SMALL = {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32}

# name: (storage, changes of BASE, whether NVFP4 holds more than the experts).
VARIANTS = {
    "f32": ("f32", SMALL | {"norm_topk_prob": False, "tie_word_embeddings": True, "mlp_only_layers": [0]}, False),
    "bf16": ("bf16", SMALL | {"decoder_sparse_step": 2, "num_key_value_heads": 1}, False),
    "nvfp4": ("nvfp4", {"mlp_only_layers": [1]}, False),
    "nvfp4_all": ("nvfp4", {"num_attention_heads": 6, "head_dim": 16, "num_key_value_heads": 3}, True),
}

# What no variant packs: norms are vectors, and routers stay plain everywhere.
PLAIN = ("norm.weight", "mlp.gate.weight")


def make_config(storage, changes, everything):
    config = BASE | changes
    config["dtype"] = "float32" if storage == "f32" else "bfloat16"
    if storage == "nvfp4":
        ignore = ["*.mlp.gate"]
        if not everything:
            ignore += ["lm_head", "model.embed_tokens", "*.self_attn*"]
            ignore += [f"model.layers.{n}.mlp*" for n in config["mlp_only_layers"]]
        config["quantization_config"] = modelopt_nvfp4(ignore)
    return config


def random_weights(config, seed):
    c, out = config, RandomTensors(seed)
    hidden, head = c["hidden_size"], c["head_dim"]
    out["model.embed_tokens.weight"] = out.normal(c["vocab_size"], hidden)
    sparse = reference.sparse_layers(c)
    for n in range(c["num_hidden_layers"]):
        layer = f"model.layers.{n}"
        attention = f"{layer}.self_attn"
        out.norm(f"{layer}.input_layernorm", hidden)
        out.norm(f"{layer}.post_attention_layernorm", hidden)
        out.matrix(f"{attention}.q_proj", c["num_attention_heads"] * head, hidden)
        out.matrix(f"{attention}.k_proj", c["num_key_value_heads"] * head, hidden)
        out.matrix(f"{attention}.v_proj", c["num_key_value_heads"] * head, hidden)
        out.norm(f"{attention}.q_norm", head)
        out.norm(f"{attention}.k_norm", head)
        out.matrix(f"{attention}.o_proj", hidden, c["num_attention_heads"] * head)
        if n not in sparse:
            out.mlp(f"{layer}.mlp", hidden, c["intermediate_size"])
            continue
        out.matrix(f"{layer}.mlp.gate", c["num_experts"], hidden)
        for e in range(c["num_experts"]):
            out.mlp(f"{layer}.mlp.experts.{e}", hidden, c["moe_intermediate_size"])
    out.norm("model.norm", hidden)
    if not c["tie_word_embeddings"]:
        out.matrix("lm_head", c["vocab_size"], hidden, 2.0)
    return out


def main():
    torch.set_num_threads(1)
    for name, (storage, changes, everything) in VARIANTS.items():
        config = make_config(storage, changes, everything)
        packed = (lambda t: not t.endswith(PLAIN)) if everything else (lambda t: ".mlp.experts." in t)
        make(HERE / name, reference, config, storage, random_weights, packed)


if __name__ == "__main__":
    main()
