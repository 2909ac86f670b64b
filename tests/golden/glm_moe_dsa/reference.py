"""Runs transformers' GlmMoeDsaForCausalLM on given weights and records what happens inside.

Besides plain float32 it can run in true float64: `model.double()` alone is not enough, because the
modelling code casts to float32 in the norms, the router, the softmax, the rotary tables and the
indexer. `float64_everywhere` redirects those casts while it is active.
"""

import contextlib

import torch
from transformers import DynamicCache, GlmMoeDsaConfig, GlmMoeDsaForCausalLM
from transformers.models.glm_moe_dsa import modeling_glm_moe_dsa as modeling


class _Float64Torch:
    """Stands for the module `torch` inside the modelling code, with float32 meaning float64."""

    float32 = float = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


@contextlib.contextmanager
def float64_everywhere():
    plain_float = torch.Tensor.float
    modeling.torch, torch.Tensor.float = _Float64Torch(), torch.Tensor.double
    try:
        yield
    finally:
        modeling.torch, torch.Tensor.float = torch, plain_float


def build(config, weights, dtype):
    """A model holding `weights` (names and stacks as in memory) in the given dtype."""
    config = GlmMoeDsaConfig(**{k: v for k, v in config.items() if k != "quantization_config"})
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    model = GlmMoeDsaForCausalLM(config).to(dtype).eval()
    missing, unexpected = model.load_state_dict({k: v.to(dtype) for k, v in weights.items()}, strict=False)
    assert not missing and not unexpected, (missing, unexpected)
    rope = config.rope_parameters["rope_theta"], config.qk_rope_head_dim
    model.model.rotary_emb.inv_freq = rope[0] ** (-torch.arange(0, rope[1], 2, dtype=dtype) / rope[1])
    return model


def stack_experts(tensors, config):
    """Per-expert matrices to the stacks transformers holds in memory."""
    out = {k: v for k, v in tensors.items() if ".mlp.experts." not in k}
    for layer, kind in enumerate(config["mlp_layer_types"]):
        if kind == "sparse":
            prefix = f"model.layers.{layer}.mlp.experts"
            of = lambda e, p: tensors[f"{prefix}.{e}.{p}_proj.weight"]
            experts = range(config["n_routed_experts"])
            out[f"{prefix}.gate_up_proj"] = torch.stack([torch.cat([of(e, "gate"), of(e, "up")]) for e in experts])
            out[f"{prefix}.down_proj"] = torch.stack([of(e, "down") for e in experts])
    return out


def _pad_positions(indices, length, first):
    """Selected positions in rising order, causal ones only, -1 after them: [S, topk]."""
    rows = torch.full((indices.shape[0], indices.shape[1]), -1, dtype=torch.int32)
    for t, row in enumerate(indices):
        kept = sorted(p for p in row.tolist() if p <= first + t)
        rows[t, : len(kept)] = torch.tensor(kept, dtype=torch.int32)
    return rows


class Recorder:
    """Hooks on one model. After a forward pass `seen` maps names to tensors without a batch axis."""

    def __init__(self, model):
        self.seen, self.first = {}, 0
        model.model.embed_tokens.register_forward_hook(lambda m, i, o: self._put("embedding", o[0]))
        model.model.norm.register_forward_hook(lambda m, i, o: self._put("final_norm", o[0]))
        model.lm_head.register_forward_hook(lambda m, i, o: self._put("logits", o[0]))
        for n, layer in enumerate(model.model.layers):
            layer.register_forward_hook(lambda m, i, o, n=n: self._put(f"layer.{n}.output", o[0][0]))
            layer.self_attn.register_forward_hook(lambda m, i, o, n=n: self._attention(n, o))
            if hasattr(layer.mlp, "gate"):
                layer.mlp.gate.register_forward_hook(lambda m, i, o, n=n: self._router(n, o))

    def _put(self, name, value):
        self.seen[name] = value.detach().clone()

    def _attention(self, n, outputs):
        self._put(f"layer.{n}.attention_output", outputs[0][0])
        indices = outputs[2][0]
        self._put(f"layer.{n}.indexer_positions", _pad_positions(indices, indices.shape[0], self.first))

    def _router(self, n, outputs):
        _, weights, chosen = outputs
        order = chosen.argsort(dim=-1)
        self._put(f"layer.{n}.router_ids", chosen.gather(1, order).int())
        self._put(f"layer.{n}.router_weights", weights.gather(1, order))


@torch.no_grad()
def prefill(model, ids, first=0, cache=None):
    recorder = model.recorder = getattr(model, "recorder", None) or Recorder(model)
    recorder.seen, recorder.first = {}, first
    model(torch.tensor([ids]), cache=cache, use_cache=cache is not None)
    return dict(recorder.seen)


def decode(model, ids):
    """The same prompt token by token with a cache; rows are joined to compare with prefill."""
    cache = DynamicCache(config=model.config)
    steps = [prefill(model, [token], first=t, cache=cache) for t, token in enumerate(ids)]
    joined = {}
    for name in steps[0]:
        rows = [s[name] for s in steps]
        width = max(r.shape[-1] for r in rows)
        if name.endswith("indexer_positions"):
            rows = [torch.nn.functional.pad(r, (0, width - r.shape[-1]), value=-1) for r in rows]
        joined[name] = torch.cat(rows)
    return joined
