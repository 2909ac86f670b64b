"""transformers' GlmMoeDsaForCausalLM, recorded as ../reference_model.py says, the indexer's choice too."""

import torch
from reference_model import Recorder, decode as decode_with, float64_everywhere as float64_in, prefill as prefill_with
from reference_model import build as build_model, stack_experts as stack
from transformers import GlmMoeDsaConfig, GlmMoeDsaForCausalLM
from transformers.models.glm_moe_dsa import modeling_glm_moe_dsa as modeling


def float64_everywhere():
    return float64_in(modeling)


def build(config, weights, dtype):
    config = GlmMoeDsaConfig(**{k: v for k, v in config.items() if k != "quantization_config"})
    return build_model(GlmMoeDsaForCausalLM, config, weights, dtype, config.qk_rope_head_dim)


def stack_experts(tensors, config):
    sparse = [n for n, kind in enumerate(config["mlp_layer_types"]) if kind == "sparse"]
    return stack(tensors, sparse, config["n_routed_experts"])


def _pad_positions(indices, length, first):
    """Selected positions in rising order, causal ones only, -1 after them: [S, topk]."""
    rows = torch.full((indices.shape[0], indices.shape[1]), -1, dtype=torch.int32)
    for t, row in enumerate(indices):
        kept = sorted(p for p in row.tolist() if p <= first + t)
        rows[t, : len(kept)] = torch.tensor(kept, dtype=torch.int32)
    return rows


class IndexerRecorder(Recorder):
    def attention(self, n, outputs):
        super().attention(n, outputs)
        indices = outputs[2][0]
        self._put(f"layer.{n}.indexer_positions", _pad_positions(indices, indices.shape[0], self.first))


def prefill(model, ids):
    return prefill_with(model, ids, recorder=IndexerRecorder)


def decode(model, ids):
    return decode_with(model, ids, recorder=IndexerRecorder)
