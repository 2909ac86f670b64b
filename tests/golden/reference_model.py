"""Runs a causal model of transformers on given weights and records what happens inside: what the golden
sets of all architectures share.

Besides plain float32 a model can run in true float64: `model.double()` alone is not enough, because the
modelling code casts to float32 in the norms, the router, the softmax and the rotary tables.
`float64_everywhere` redirects those casts of one modelling module while it is active.
"""

import contextlib

import torch
from transformers import DynamicCache


class _Float64Torch:
    """Stands for the module `torch` inside the modelling code, with float32 meaning float64."""

    float32 = float = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


@contextlib.contextmanager
def float64_everywhere(modeling):
    plain_float = torch.Tensor.float
    modeling.torch, torch.Tensor.float = _Float64Torch(), torch.Tensor.double
    try:
        yield
    finally:
        modeling.torch, torch.Tensor.float = torch, plain_float


def build(model_class, config, weights, dtype, rotary_dims):
    """A model holding `weights` (names and stacks as in memory) in the given dtype."""
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    model = model_class(config).to(dtype).eval()
    missing, unexpected = model.load_state_dict({k: v.to(dtype) for k, v in weights.items()}, strict=False)
    assert not missing and not unexpected, (missing, unexpected)
    theta = config.rope_parameters["rope_theta"]
    model.model.rotary_emb.inv_freq = theta ** (-torch.arange(0, rotary_dims, 2, dtype=dtype) / rotary_dims)
    return model


def stack_experts(tensors, layers, experts):
    """Per-expert matrices of these layers to the stacks transformers holds in memory."""
    out = {k: v for k, v in tensors.items() if ".mlp.experts." not in k}
    for layer in layers:
        prefix = f"model.layers.{layer}.mlp.experts"
        of = lambda e, p: tensors[f"{prefix}.{e}.{p}_proj.weight"]
        out[f"{prefix}.gate_up_proj"] = torch.stack([torch.cat([of(e, "gate"), of(e, "up")]) for e in range(experts)])
        out[f"{prefix}.down_proj"] = torch.stack([of(e, "down") for e in range(experts)])
    return out


def first_of(outputs):
    """The hidden states of a layer's outputs: some architectures return more beside them."""
    return outputs[0] if isinstance(outputs, tuple) else outputs


class Recorder:
    """Hooks on one model. After a forward pass `seen` maps names to tensors without a batch axis."""

    def __init__(self, model):
        self.seen, self.first = {}, 0
        model.model.embed_tokens.register_forward_hook(lambda m, i, o: self._put("embedding", o[0]))
        model.model.norm.register_forward_hook(lambda m, i, o: self._put("final_norm", o[0]))
        model.lm_head.register_forward_hook(lambda m, i, o: self._put("logits", o[0]))
        for n, layer in enumerate(model.model.layers):
            layer.register_forward_hook(lambda m, i, o, n=n: self._put(f"layer.{n}.output", first_of(o)[0]))
            layer.self_attn.register_forward_hook(lambda m, i, o, n=n: self.attention(n, o))
            if hasattr(layer.mlp, "gate"):
                layer.mlp.gate.register_forward_hook(lambda m, i, o, n=n: self._router(n, o))

    def _put(self, name, value):
        self.seen[name] = value.detach().clone()

    def attention(self, n, outputs):
        self._put(f"layer.{n}.attention_output", outputs[0][0])

    def _router(self, n, outputs):
        _, weights, chosen = outputs
        order = chosen.argsort(dim=-1)
        self._put(f"layer.{n}.router_ids", chosen.gather(1, order).int())
        self._put(f"layer.{n}.router_weights", weights.gather(1, order))


@torch.no_grad()
def prefill(model, ids, first=0, cache=None, recorder=Recorder):
    model.recorder = getattr(model, "recorder", None) or recorder(model)
    model.recorder.seen, model.recorder.first = {}, first
    model(torch.tensor([ids]), cache=cache, use_cache=cache is not None)
    return dict(model.recorder.seen)


def decode(model, ids, recorder=Recorder):
    """The same prompt token by token with a cache; rows are joined to compare with prefill. Lists of
    positions grow with the prompt and are padded with -1."""
    cache = DynamicCache(config=model.config)
    steps = [prefill(model, [token], first=t, cache=cache, recorder=recorder) for t, token in enumerate(ids)]
    joined = {}
    for name in steps[0]:
        rows = [s[name] for s in steps]
        width = max(r.shape[-1] for r in rows)
        rows = [torch.nn.functional.pad(r, (0, width - r.shape[-1]), value=-1) for r in rows]
        joined[name] = torch.cat(rows)
    return joined
