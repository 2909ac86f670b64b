"""Makes the golden set: tiny random glm_moe_dsa checkpoints and what transformers computes on them.

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
    "architectures": ["GlmMoeDsaForCausalLM"],
    "model_type": "glm_moe_dsa",
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 64,
    "moe_intermediate_size": 64,
    "num_hidden_layers": 3,
    "first_k_dense_replace": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "q_lora_rank": 32,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "n_routed_experts": 16,
    "num_experts_per_tok": 4,
    "n_shared_experts": 1,
    "n_group": 1,
    "topk_group": 1,
    "norm_topk_prob": True,
    "routed_scaling_factor": 2.5,
    "scoring_func": "sigmoid",
    "topk_method": "noaux_tc",
    "index_topk": 8,
    "index_n_heads": 8,
    "index_head_dim": 16,
    "rope_interleave": True,
    "indexer_rope_interleave": True,
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "attention_bias": False,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": 0,
    "pad_token_id": 0,
}

# name: (storage, changes of BASE). Expert counts are small where storage is wide, to keep files small.
VARIANTS = {
    "f32": ("f32", {"n_routed_experts": 8, "num_experts_per_tok": 3, "first_k_dense_replace": 2}),
    "bf16": ("bf16", {"n_routed_experts": 8, "num_experts_per_tok": 3}),
    "nvfp4": ("nvfp4", {}),
    "nvfp4_groups": ("nvfp4", {"n_group": 4, "topk_group": 2}),
    "nvfp4_shared_indexer": (
        "nvfp4",
        {"num_hidden_layers": 4, "first_k_dense_replace": 2, "indexer_types": ["full", "shared", "full", "shared"]},
    ),
}


def make_config(storage, changes):
    config = BASE | changes
    layers, dense = config["num_hidden_layers"], config["first_k_dense_replace"]
    config["dtype"] = "float32" if storage == "f32" else "bfloat16"
    config["mlp_layer_types"] = ["dense"] * dense + ["sparse"] * (layers - dense)
    config.setdefault("indexer_types", ["full"] * layers)
    if storage == "nvfp4":
        ignore = ["lm_head", "model.embed_tokens", "*.self_attn*", "*.mlp.gate", "*.mlp.shared_experts*"]
        ignore += [f"model.layers.{n}.mlp*" for n in range(dense)]
        config["quantization_config"] = modelopt_nvfp4(ignore)
    return config


def random_weights(config, seed):
    c, out = config, RandomTensors(seed)
    matrix, norm, normal, hidden = out.matrix, out.norm, out.normal, c["hidden_size"]
    out["model.embed_tokens.weight"] = normal(c["vocab_size"], hidden)
    for n in range(c["num_hidden_layers"]):
        layer = f"model.layers.{n}"
        attention = f"{layer}.self_attn"
        norm(f"{layer}.input_layernorm", hidden)
        norm(f"{layer}.post_attention_layernorm", hidden)
        heads = c["num_attention_heads"]
        matrix(f"{attention}.q_a_proj", c["q_lora_rank"], hidden)
        norm(f"{attention}.q_a_layernorm", c["q_lora_rank"])
        matrix(f"{attention}.q_b_proj", heads * (c["qk_nope_head_dim"] + c["qk_rope_head_dim"]), c["q_lora_rank"], 1.6)
        matrix(f"{attention}.kv_a_proj_with_mqa", c["kv_lora_rank"] + c["qk_rope_head_dim"], hidden)
        norm(f"{attention}.kv_a_layernorm", c["kv_lora_rank"])
        matrix(f"{attention}.kv_b_proj", heads * (c["qk_nope_head_dim"] + c["v_head_dim"]), c["kv_lora_rank"])
        matrix(f"{attention}.o_proj", hidden, heads * c["v_head_dim"])
        if c["indexer_types"][n] == "full":
            indexer = f"{attention}.indexer"
            matrix(f"{indexer}.wq_b", c["index_n_heads"] * c["index_head_dim"], c["q_lora_rank"])
            matrix(f"{indexer}.wk", c["index_head_dim"], hidden)
            norm(f"{indexer}.k_norm", c["index_head_dim"])
            out[f"{indexer}.k_norm.bias"] = 0.3 * normal(c["index_head_dim"])
            matrix(f"{indexer}.weights_proj", c["index_n_heads"], hidden)
        if c["mlp_layer_types"][n] == "dense":
            out.mlp(f"{layer}.mlp", hidden, c["intermediate_size"])
            continue
        experts = c["n_routed_experts"]
        matrix(f"{layer}.mlp.gate", experts, hidden)
        out[f"{layer}.mlp.gate.e_score_correction_bias"] = 0.2 * normal(experts)
        out.mlp(f"{layer}.mlp.shared_experts", hidden, c["moe_intermediate_size"])
        for e in range(experts):
            out.mlp(f"{layer}.mlp.experts.{e}", hidden, c["moe_intermediate_size"])
    norm("model.norm", hidden)
    matrix("lm_head", c["vocab_size"], hidden, 2.0)
    return out


def main():
    torch.set_num_threads(1)
    for name, (storage, changes) in VARIANTS.items():
        config = make_config(storage, changes)
        make(HERE / name, reference, config, storage, random_weights, lambda tensor: ".mlp.experts." in tensor)


if __name__ == "__main__":
    main()
