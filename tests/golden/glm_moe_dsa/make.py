"""Makes the golden set: tiny random glm_moe_dsa checkpoints and what transformers computes on them.

    python make.py            (versions: requirements.txt; writes beside this file)

Each variant is a Hugging Face directory with `expected.safetensors` and `prompts.json` added; see
README.md for the names. Expected values are computed in float64 from the dequantised weights.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "training"))

from nvfp4 import pack, unpack  # noqa: E402
from reference import build, decode, float64_everywhere, prefill, stack_experts  # noqa: E402

PROMPT_LENGTHS = [24, 1, 7, 13, 22, 40]  # the first is the single prompt, the others the batch of five

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
        values = {"num_bits": 4, "type": "float", "group_size": 16, "dynamic": False}
        ignore = ["lm_head", "model.embed_tokens", "*.self_attn*", "*.mlp.gate", "*.mlp.shared_experts*"]
        ignore += [f"model.layers.{n}.mlp*" for n in range(dense)]
        config["quantization_config"] = {
            "quant_method": "modelopt",
            "quant_algo": "NVFP4",
            "config_groups": {"group_0": {"weights": values, "targets": ["Linear"]}},
            "ignore": ignore,
        }
    return config


def random_weights(config, seed):
    """Float32 tensors under their names on disk. Matrices keep the scale of their input, a little
    enlarged so that attention and routing are decided rather than flat; norms and biases are random."""
    generator = torch.Generator().manual_seed(seed)
    normal = lambda *shape: torch.randn(*shape, generator=generator)
    c, out = config, {}
    hidden = c["hidden_size"]

    def matrix(name, rows, columns, gain=1.3):
        out[f"{name}.weight"] = normal(rows, columns) * gain * columns**-0.5

    def norm(name, size):
        out[f"{name}.weight"] = 1 + 0.2 * normal(size)

    def mlp(name, inner):
        matrix(f"{name}.gate_proj", inner, hidden)
        matrix(f"{name}.up_proj", inner, hidden)
        matrix(f"{name}.down_proj", hidden, inner)

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
            mlp(f"{layer}.mlp", c["intermediate_size"])
            continue
        experts = c["n_routed_experts"]
        matrix(f"{layer}.mlp.gate", experts, hidden)
        out[f"{layer}.mlp.gate.e_score_correction_bias"] = 0.2 * normal(experts)
        mlp(f"{layer}.mlp.shared_experts", c["moe_intermediate_size"])
        for e in range(experts):
            mlp(f"{layer}.mlp.experts.{e}", c["moe_intermediate_size"])
    norm("model.norm", hidden)
    matrix("lm_head", c["vocab_size"], hidden, 2.0)
    return out


def store(weights, storage):
    """Tensors as written, and the float32 values a reader gets back from them."""
    written, values = {}, {}
    for name, tensor in weights.items():
        if storage == "nvfp4" and ".mlp.experts." in name:
            code, scale, scale_2 = pack(tensor, search=False)
            written |= {name: code, f"{name}_scale": scale, f"{name}_scale_2": scale_2}
            values[name] = unpack(code, scale, scale_2)
        elif storage == "f32" or name.endswith("e_score_correction_bias"):
            written[name] = values[name] = tensor
        else:
            written[name] = tensor.to(torch.bfloat16)
            values[name] = written[name].float()
    return {k: v.contiguous() for k, v in written.items()}, values


def compare(a, b):
    """Largest difference of the real values; the choices must be the same."""
    worst = {}
    for name, value in a.items():
        if value.dtype == torch.int32:
            if not torch.equal(value, b[name]):
                return None
        else:
            kind = name.split(".")[-1]
            worst[kind] = max(worst.get(kind, 0.0), (value.double() - b[name].double()).abs().max().item())
    return worst


def largest(results):
    kinds = {kind for r in results for kind in r}
    return {kind: max(r.get(kind, 0.0) for r in results) for kind in sorted(kinds)}


def run(config, values, prompts):
    """Expected tensors, and how far float32 and cached decoding are from them; None when a choice of
    expert or position is so close that it depends on the precision."""
    weights = stack_experts(values, config)
    single = build(config, weights, torch.float32)
    with float64_everywhere():
        double = build(config, weights, torch.float64)
        expected = [prefill(double, ids) for ids in prompts]
        decoded = [decode(double, ids) for ids in prompts]
    in_single = [prefill(single, ids) for ids in prompts]
    decoded_single = [decode(single, ids) for ids in prompts]
    assert all(v.dtype in (torch.float64, torch.int32) for e in expected for v in e.values())
    pairs = {
        "float32_vs_float64": zip(in_single, expected),
        "decode_vs_prefill_float64": zip(decoded, expected),
        "decode_vs_prefill_float32": zip(decoded_single, in_single),
    }
    report = {}
    for name, both in pairs.items():
        results = [compare(a, b) for a, b in both]
        if None in results:
            return None
        report[name] = largest(results)
    return expected, report


def make(name, storage, changes):
    config = make_config(storage, changes)
    generator = torch.Generator().manual_seed(7)
    prompts = [torch.randint(1, config["vocab_size"], (n,), generator=generator).tolist() for n in PROMPT_LENGTHS]
    for seed in range(100):
        written, values = store(random_weights(config, seed), storage)
        result = run(config, values, prompts)
        if result and robust(config, values, prompts, result[0]):
            break
    expected, report = result
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    save_file(written, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    flat = {}
    for index, seen in enumerate(expected):
        for key, value in seen.items():
            flat[f"prompt.{index}.{key}"] = (value if value.dtype == torch.int32 else value.float()).contiguous()
    save_file(flat, folder / "expected.safetensors")
    index = {"seed": seed, "single": 0, "batch": [1, 2, 3, 4, 5], "prompts": prompts, "differences": report}
    (folder / "prompts.json").write_text(json.dumps(index) + "\n")
    print(name, "seed", seed, "model bytes", (folder / "model.safetensors").stat().st_size)
    for key, value in report.items():
        print("  ", key, {k: f"{v:.1e}" for k, v in value.items()})


def robust(config, values, prompts, expected, noise=1e-5):
    """Whether all choices survive a relative disturbance of every weight: an implementation may round
    differently and must still choose the same experts and positions."""
    generator = torch.Generator().manual_seed(3)
    shaken = {k: v * (1 + noise * torch.randn(v.shape, generator=generator)) for k, v in values.items()}
    model = build(config, stack_experts(shaken, config), torch.float32)
    return all(compare(prefill(model, ids), seen) is not None for ids, seen in zip(prompts, expected))


def main():
    torch.set_num_threads(1)
    for name, (storage, changes) in VARIANTS.items():
        make(name, storage, changes)


if __name__ == "__main__":
    main()
