"""transformers' Qwen3MoeForCausalLM, recorded as ../reference_model.py says."""

import torch
from reference_model import build as build_model, decode, float64_everywhere as float64_in, prefill
from reference_model import stack_experts as stack
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM
from transformers.models.qwen3_moe import modeling_qwen3_moe as modeling

__all__ = ["build", "decode", "float64_everywhere", "prefill", "stack_experts"]


def float64_everywhere():
    return float64_in(modeling)


def sparse_layers(config):
    step, dense = config["decoder_sparse_step"], config["mlp_only_layers"]
    return [n for n in range(config["num_hidden_layers"]) if n not in dense and (n + 1) % step == 0]


def build(config, weights, dtype):
    if config["tie_word_embeddings"]:
        weights = weights | {"lm_head.weight": weights["model.embed_tokens.weight"]}
    config = Qwen3MoeConfig(**{k: v for k, v in config.items() if k != "quantization_config"})
    return build_model(Qwen3MoeForCausalLM, config, weights, dtype, config.head_dim)


def stack_experts(tensors, config):
    return stack(tensors, sparse_layers(config), config["num_experts"])
