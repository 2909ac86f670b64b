"""Writes a training checkpoint as a Hugging Face model directory.

    python export.py CHECKPOINT.pt MODEL_DIR [--search]

Routed experts become NVFP4 in ModelOpt's layout, one set of tensors per expert and projection; all
else becomes BF16, except the router's correction bias, which stays F32. MODEL_DIR must already
hold the tokenizer (tokenizer.py). A run that ended with quantised training has fitted itself to the
plain rounding rule; after any other, --search (block scales of least error) is the better choice.
"""

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from model import CONFIG
from nvfp4 import pack


def hugging_face_config():
    c = dict(CONFIG)
    theta = c.pop("rope_theta")
    layers = c["num_hidden_layers"]
    dense = c["first_k_dense_replace"]
    ignore = ["lm_head", "model.embed_tokens"]
    for layer in range(layers):
        ignore.append(f"model.layers.{layer}.self_attn*")
        if layer < dense:
            ignore.append(f"model.layers.{layer}.mlp*")
        else:
            ignore += [f"model.layers.{layer}.mlp.gate", f"model.layers.{layer}.mlp.shared_experts*"]
    values = {"num_bits": 4, "type": "float", "group_size": 16, "dynamic": False}
    return {
        "architectures": ["GlmMoeDsaForCausalLM"],
        "model_type": "glm_moe_dsa",
        "dtype": "bfloat16",
        **c,
        "num_key_value_heads": c["num_attention_heads"],
        "mlp_layer_types": ["dense"] * dense + ["sparse"] * (layers - dense),
        "n_group": 1,
        "topk_group": 1,
        "norm_topk_prob": True,
        "scoring_func": "sigmoid",
        "topk_method": "noaux_tc",
        # The indexer is untrained, so it must select every position of the longest context.
        "index_topk": c["max_position_embeddings"],
        "indexer_types": ["full"] * layers,
        "rope_interleave": True,
        "indexer_rope_interleave": True,
        "rope_parameters": {"rope_theta": theta, "rope_type": "default"},
        "hidden_act": "silu",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "tie_word_embeddings": False,
        "use_cache": True,
        "num_nextn_predict_layers": 0,
        "bos_token_id": None,
        "eos_token_id": 0,
        "pad_token_id": 0,
        "quantization_config": {
            "quant_method": "modelopt",
            "quant_algo": "NVFP4",
            "producer": {"name": "storyteller export.py"},
            "config_groups": {"group_0": {"weights": values, "targets": ["Linear"]}},
            "ignore": ignore,
        },
    }


def tensors_of(state, search):
    """The checkpoint's tensors under their names on disk."""
    out = {}

    def add_expert(name, weight):
        weight, scale, scale_2 = pack(weight, search)
        out[f"{name}.weight"] = weight
        out[f"{name}.weight_scale"] = scale
        out[f"{name}.weight_scale_2"] = scale_2

    for name, tensor in state.items():
        if name.endswith("experts.gate_up_proj"):
            prefix = name.removesuffix(".gate_up_proj")
            for expert, weight in enumerate(tensor):
                gate, up = weight.chunk(2)
                add_expert(f"{prefix}.{expert}.gate_proj", gate)
                add_expert(f"{prefix}.{expert}.up_proj", up)
        elif name.endswith("experts.down_proj") and tensor.dim() == 3:
            for expert, weight in enumerate(tensor):
                add_expert(f"{name.removesuffix('.down_proj')}.{expert}.down_proj", weight)
        elif name.endswith("e_score_correction_bias"):
            out[name] = tensor.float()
        else:
            out[name] = tensor.to(torch.bfloat16)
    return {name: tensor.contiguous() for name, tensor in out.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("model_dir", type=Path)
    parser.add_argument("--search", action="store_true")
    args = parser.parse_args()

    state = torch.load(args.checkpoint, weights_only=True)
    tensors = tensors_of(state["model"], args.search)
    save_file(tensors, args.model_dir / "model.safetensors", metadata={"format": "pt"})
    write = lambda name, value: (args.model_dir / name).write_text(json.dumps(value, indent=2) + "\n")
    write("config.json", hugging_face_config())
    write("generation_config.json", {
        "eos_token_id": 0, "pad_token_id": 0, "do_sample": True, "temperature": 0.8, "top_p": 0.95,
    })
    size = (args.model_dir / "model.safetensors").stat().st_size
    print(f"step {state['step']}, {state['tokens']} tokens seen: {len(tensors)} tensors, {size} bytes")


if __name__ == "__main__":
    main()
