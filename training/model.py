"""GLM-5 in miniature, for training: plain PyTorch, laid out in the order of the paper.

Multi-head latent attention (MLA) with low-rank queries and keys, a first dense layer, then layers
of many small routed experts beside one shared expert, chosen by a sigmoid router whose correction
bias keeps the load even. Module names are those of transformers' GlmMoeDsaForCausalLM, so a state
dict of one is a state dict of the other. The hand-written gradients are in kernels.py.

Parameters are float32; products run in bfloat16; the residual stream stays float32.
"""

import torch
from torch import nn

from kernels import causal_attention, fake_nvfp4, rms_norm, routed_experts, to_product, token_losses

CONFIG = {
    "vocab_size": 4096,
    "hidden_size": 192,
    "intermediate_size": 512,
    "moe_intermediate_size": 64,
    "num_hidden_layers": 5,
    "first_k_dense_replace": 1,
    "num_attention_heads": 6,
    "q_lora_rank": 96,
    "kv_lora_rank": 64,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32,
    "n_routed_experts": 64,
    "num_experts_per_tok": 8,
    "n_shared_experts": 1,
    "routed_scaling_factor": 2.5,
    "index_n_heads": 4,
    "index_head_dim": 32,
    "rope_theta": 10000.0,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
}

# transformers builds the norms inside MLA with its class default rather than rms_norm_eps.
LATENT_NORM_EPS = 1e-6


class Linear(nn.Module):
    """y = x W^T in the product type, without bias. W starts at unit gain, or at zero where asked."""

    def __init__(self, inputs, outputs, gain=1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) * gain * inputs**-0.5)

    def forward(self, x):
        return x @ to_product(self.weight).t()


class RMSNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return rms_norm(x, self.weight, self.eps)


class Indexer(nn.Module):
    """The lightning indexer's tensors. They stay untrained: with index_topk at least as long as the
    context it selects every position, so attention here is dense and never asks it."""

    def __init__(self, c):
        super().__init__()
        self.wq_b = Linear(c["q_lora_rank"], c["index_n_heads"] * c["index_head_dim"])
        self.wk = Linear(c["hidden_size"], c["index_head_dim"])
        self.k_norm = nn.LayerNorm(c["index_head_dim"], eps=1e-6)
        self.weights_proj = Linear(c["hidden_size"], c["index_n_heads"])
        self.requires_grad_(False)


def rotate(x, cos, sin):
    """RoPE on interleaved pairs (2j, 2j+1). The result is left in half order: queries and keys are
    both permuted alike, so their products do not change."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.cat([even * cos - odd * sin, odd * cos + even * sin], dim=-1)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.nope, self.rope = c["num_attention_heads"], c["qk_nope_head_dim"], c["qk_rope_head_dim"]
        self.value, self.kv_rank = c["v_head_dim"], c["kv_lora_rank"]
        hidden = c["hidden_size"]
        self.q_a_proj = Linear(hidden, c["q_lora_rank"])
        self.q_a_layernorm = RMSNorm(c["q_lora_rank"], LATENT_NORM_EPS)
        self.q_b_proj = Linear(c["q_lora_rank"], self.heads * (self.nope + self.rope))
        self.kv_a_proj_with_mqa = Linear(hidden, self.kv_rank + self.rope)
        self.kv_a_layernorm = RMSNorm(self.kv_rank, LATENT_NORM_EPS)
        self.kv_b_proj = Linear(self.kv_rank, self.heads * (self.nope + self.value))
        self.o_proj = Linear(self.heads * self.value, hidden, gain=0.0)
        self.indexer = Indexer(c)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        q = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)))
        q = q.view(batch, length, self.heads, self.nope + self.rope).transpose(1, 2)
        q_nope, q_pe = q.split([self.nope, self.rope], dim=-1)

        latent, k_pe = self.kv_a_proj_with_mqa(x).split([self.kv_rank, self.rope], dim=-1)
        kv = self.kv_b_proj(self.kv_a_layernorm(latent))
        kv = kv.view(batch, length, self.heads, self.nope + self.value).transpose(1, 2)
        k_nope, v = kv.split([self.nope, self.value], dim=-1)
        k_pe = rotate(k_pe.unsqueeze(1), cos, sin).expand(-1, self.heads, -1, -1)

        scale = (self.nope + self.rope) ** -0.5
        q = torch.cat([q_nope, rotate(q_pe, cos, sin)], dim=-1) * scale
        k = torch.cat([k_nope, k_pe], dim=-1)
        out = causal_attention(q, k, v)
        return self.o_proj(out.transpose(1, 2).reshape(batch, length, self.heads * self.value))


class MLP(nn.Module):
    def __init__(self, hidden, inner):
        super().__init__()
        self.gate_proj = Linear(hidden, inner)
        self.up_proj = Linear(hidden, inner)
        self.down_proj = Linear(inner, hidden, gain=0.0)

    def forward(self, x):
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Router(nn.Module):
    """Chooses by sigmoid score plus bias, weighs by the score alone. Float32 throughout."""

    def __init__(self, c):
        super().__init__()
        self.top_k, self.scaling = c["num_experts_per_tok"], c["routed_scaling_factor"]
        self.weight = nn.Parameter(torch.randn(c["n_routed_experts"], c["hidden_size"]) * 0.02)
        self.register_buffer("e_score_correction_bias", torch.zeros(c["n_routed_experts"]))
        self.load = None  # tokens per expert in the last forward pass, for the bias update

    def forward(self, x):
        scores = (x.float() @ self.weight.t()).sigmoid()
        chosen = torch.topk(scores.detach() + self.e_score_correction_bias, self.top_k, sorted=False)[1]
        self.load = torch.bincount(chosen.flatten(), minlength=len(self.weight))
        weights = scores.gather(1, chosen)
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20) * self.scaling
        return weights, chosen


class Experts(nn.Module):
    """All routed experts: gate rows above up rows in one stack, as transformers keeps them."""

    def __init__(self, c):
        super().__init__()
        experts, hidden, inner = c["n_routed_experts"], c["hidden_size"], c["moe_intermediate_size"]
        self.gate_up_proj = nn.Parameter(torch.randn(experts, 2 * inner, hidden) * hidden**-0.5)
        self.down_proj = nn.Parameter(torch.zeros(experts, hidden, inner))
        self.quantise = False  # train through NVFP4 rounding, for the end of a run

    def forward(self, x, weights, chosen):
        gate_up, down = self.gate_up_proj, self.down_proj
        if self.quantise:
            gate, up = gate_up.chunk(2, dim=1)  # gate and up have tensor scales of their own
            gate_up = torch.cat([fake_nvfp4(gate), fake_nvfp4(up)], dim=1)
            down = fake_nvfp4(down)
        return routed_experts(x, weights, chosen, to_product(gate_up), to_product(down))


class MoE(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate = Router(c)
        self.experts = Experts(c)
        self.shared_experts = MLP(c["hidden_size"], c["moe_intermediate_size"] * c["n_shared_experts"])

    def forward(self, x):
        flat = x.view(-1, x.shape[-1])
        weights, chosen = self.gate(flat)
        return self.experts(flat, weights, chosen).view_as(x) + self.shared_experts(x)


class Layer(nn.Module):
    def __init__(self, c, index):
        super().__init__()
        hidden = c["hidden_size"]
        self.input_layernorm = RMSNorm(hidden, c["rms_norm_eps"])
        self.self_attn = Attention(c)
        self.post_attention_layernorm = RMSNorm(hidden, c["rms_norm_eps"])
        dense = index < c["first_k_dense_replace"]
        self.mlp = MLP(hidden, c["intermediate_size"]) if dense else MoE(c)

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Backbone(nn.Module):
    def __init__(self, c):
        super().__init__()
        # Unit-scale embeddings: nothing normalises them before they enter the residual stream.
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        nn.init.normal_(self.embed_tokens.weight, std=0.5)
        self.layers = nn.ModuleList(Layer(c, i) for i in range(c["num_hidden_layers"]))
        self.norm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])

        dims = torch.arange(0, c["qk_rope_head_dim"], 2) / c["qk_rope_head_dim"]
        angles = torch.outer(torch.arange(c["max_position_embeddings"]), c["rope_theta"] ** -dims)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, ids):
        cos, sin = self.cos[: ids.shape[1]], self.sin[: ids.shape[1]]
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, to_product(cos), to_product(sin))
        return self.norm(x)


class Storyteller(nn.Module):
    def __init__(self, config=CONFIG):
        super().__init__()
        self.config = config
        self.model = Backbone(config)
        self.lm_head = Linear(config["hidden_size"], config["vocab_size"], gain=0.0)

    def moe_layers(self):
        return [layer.mlp for layer in self.model.layers if isinstance(layer.mlp, MoE)]

    def logits(self, ids):
        return self.lm_head(self.model(ids)).float()

    def loss(self, ids):
        """Mean negative log-likelihood (nats per token) of ids[:, 1:]."""
        hidden = self.model(ids[:, :-1])
        return token_losses(hidden.flatten(0, 1), to_product(self.lm_head.weight), ids[:, 1:].flatten())
