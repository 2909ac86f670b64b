"""The parts of the model whose gradients are written by hand, for speed on a CPU.

Left to autograd, routed experts fill whole weight stacks with zeros once per expert, attention
keeps several float32 copies of its scores, and the loss keeps all logits. Each function here is an
ordinary differentiable function; test_kernels.py compares them with plain PyTorch.

Runs of elementwise steps are compiled into one loop each (torch.compile, needs a C++ compiler; with
TORCH_COMPILE_DISABLE=1 they run one by one, slower and without).
"""

import torch

# The type of all products; verify_export.py sets float32 to compare with other implementations.
PRODUCT = torch.bfloat16


def set_product_type(dtype):
    global PRODUCT
    PRODUCT = dtype


def to_product(x):
    return x.to(PRODUCT)


@torch.compile(dynamic=True)
def rms_norm_forward(x, weight, eps):
    x = x.float()
    scale = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
    return (x * scale * weight).to(PRODUCT), scale


@torch.compile(dynamic=True)
def rms_norm_backward(x, weight, scale, grad):
    normed, grad = x.float() * scale, grad.float()
    grad_weight = (grad * normed).sum(0)
    grad = grad * weight
    return ((grad - normed * (grad * normed).mean(-1, keepdim=True)) * scale).to(x.dtype), grad_weight


class RMSNormFunction(torch.autograd.Function):
    """float32 or bfloat16 [N, size] in, product type out; statistics in float32."""

    @staticmethod
    def forward(ctx, x, weight, eps):
        out, scale = rms_norm_forward(x, weight, eps)
        ctx.save_for_backward(x, weight, scale)
        return out

    @staticmethod
    def backward(ctx, grad):
        x, weight, scale = ctx.saved_tensors
        return *rms_norm_backward(x, weight, scale, grad.contiguous()), None


def rms_norm(x, weight, eps):
    flat = x.reshape(-1, x.shape[-1])
    return RMSNormFunction.apply(flat, weight, eps).view(x.shape)


@torch.compile(dynamic=True)
def causal_softmax(scores):
    position = torch.arange(scores.shape[-1])
    hidden = position > position[: scores.shape[-2], None]
    return torch.softmax(scores.float().masked_fill(hidden, float("-inf")), dim=-1).to(PRODUCT)


class CausalAttentionFunction(torch.autograd.Function):
    """softmax(q k^T + causal mask) v for [batch, heads, length, dim]; q is already scaled.

    One sequence at a time, so that the scores of its heads stay in the second-level cache.
    """

    @staticmethod
    def forward(ctx, q, k, v):
        probs = []
        out = torch.empty(*q.shape[:3], v.shape[3], dtype=PRODUCT)
        for b in range(q.shape[0]):
            probs.append(causal_softmax(torch.bmm(q[b], k[b].transpose(1, 2))))
            torch.bmm(probs[b], v[b], out=out[b])
        ctx.save_for_backward(q, k, v, *probs)
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, *probs = ctx.saved_tensors
        grad = grad.contiguous()
        grad_q, grad_k, grad_v = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        for b, p in enumerate(probs):
            grad_p = torch.bmm(grad[b], v[b].transpose(1, 2))
            grad_s = torch._softmax_backward_data(grad_p, p, -1, PRODUCT)
            torch.bmm(grad_s, k[b], out=grad_q[b])
            torch.bmm(grad_s.transpose(1, 2), q[b], out=grad_k[b])
            torch.bmm(p.transpose(1, 2), grad[b], out=grad_v[b])
        return grad_q, grad_k, grad_v


def causal_attention(q, k, v):
    return CausalAttentionFunction.apply(q.contiguous(), k.contiguous(), v.contiguous())


@torch.compile(dynamic=True)
def swiglu_forward(h, weight):
    """weight * silu(gate) * up for h = [gate | up]."""
    gate, up = h.float().chunk(2, dim=1)
    return (gate * gate.sigmoid() * up * weight.float()).to(PRODUCT)


@torch.compile(dynamic=True)
def swiglu_backward(h, weight, grad):
    gate, up = h.float().chunk(2, dim=1)
    grad, sigmoid = grad.float(), gate.sigmoid()
    silu = gate * sigmoid
    grad_weight = (grad * silu * up).sum(-1)
    grad = grad * weight.float()
    grad_gate = grad * up * (sigmoid * (1 + gate - silu))
    return torch.cat([grad_gate, grad * silu], dim=1).to(PRODUCT), grad_weight


class RoutedExpertsFunction(torch.autograd.Function):
    """Sum over each token's experts of weight * down(silu(gate x) * up x).

    x [N, H], weights and chosen [N, K], gate_up [E, 2I, H], down [E, H, I].
    Tokens are sorted by expert once; expert e then owns a contiguous run of rows. A run is padded
    to a multiple of PAD rows, because the matrix library compiles a kernel for each new row count.
    Padding rows copy token 0 with weight zero, which keeps every gradient of theirs at zero.
    """

    PAD = 64

    @staticmethod
    def forward(ctx, x, weights, chosen, gate_up, down):
        tokens, top_k = chosen.shape
        pad, inner_size = RoutedExpertsFunction.PAD, down.shape[2]
        flat = chosen.flatten()
        order = torch.argsort(flat, stable=True)
        loads = torch.bincount(flat, minlength=len(down))
        padded = (loads + pad - 1) // pad * pad
        shift = (padded.cumsum(0) - padded) - (loads.cumsum(0) - loads)
        slots = torch.arange(len(order)) + shift[flat[order]]  # row of each sorted (token, expert) pair
        counts = padded.tolist()
        total = sum(counts)
        place = torch.empty_like(order)
        place[order] = slots
        token = torch.zeros(total, dtype=torch.int64)
        token[slots] = order // top_k
        weight = torch.zeros(total, 1, dtype=PRODUCT)
        weight[slots, 0] = weights.flatten()[order].to(PRODUCT)

        rows = x.index_select(0, token)
        h = torch.empty(total, 2 * inner_size, dtype=PRODUCT)
        for xe, he, w in zip(rows.split(counts), h.split(counts), gate_up.unbind()):
            torch.mm(xe, w.t(), out=he)
        # The router weight is applied to the I inner values: fewer than the H outputs.
        inner = swiglu_forward(h, weight)
        y = torch.empty(total, x.shape[1], dtype=PRODUCT)
        for ae, ye, w in zip(inner.split(counts), y.split(counts), down.unbind()):
            torch.mm(ae, w.t(), out=ye)
        ctx.save_for_backward(token, place, rows, h, weight, inner, gate_up, down)
        ctx.counts, ctx.top_k = counts, top_k
        return torch.nn.functional.embedding_bag(place.view(tokens, top_k), y, mode="sum")

    @staticmethod
    def backward(ctx, grad):
        token, place, rows, h, weight, inner, gate_up, down = ctx.saved_tensors
        counts, top_k = ctx.counts, ctx.top_k
        grad_y = grad.index_select(0, token)
        grad_inner = torch.empty_like(inner)
        grad_down = torch.empty_like(down)
        for ge, ae, gi, w, gw in zip(
            grad_y.split(counts), inner.split(counts), grad_inner.split(counts), down.unbind(), grad_down.unbind()
        ):
            torch.mm(ge, w, out=gi)
            torch.mm(ge.t(), ae, out=gw)
        grad_h, grad_weight = swiglu_backward(h, weight, grad_inner)
        grad_weight = grad_weight[place].view(-1, top_k)
        grad_rows = torch.empty_like(rows)
        grad_gate_up = torch.empty_like(gate_up)
        for ge, xe, gx, w, gw in zip(
            grad_h.split(counts), rows.split(counts), grad_rows.split(counts), gate_up.unbind(), grad_gate_up.unbind()
        ):
            torch.mm(ge, w, out=gx)
            torch.mm(ge.t(), xe, out=gw)
        grad_x = torch.nn.functional.embedding_bag(place.view(-1, top_k), grad_rows, mode="sum")
        return grad_x, grad_weight, None, grad_gate_up, grad_down


def routed_experts(x, weights, chosen, gate_up, down):
    return RoutedExpertsFunction.apply(x, weights, chosen, gate_up, down)


@torch.compile(dynamic=True)
def softmax_loss(logits, target):
    """Summed loss of rows of logits, and its gradient."""
    logits = logits.float()
    top = logits.amax(-1, keepdim=True)
    total = (logits - top).exp().sum(-1, keepdim=True).log() + top
    loss = (total - logits.gather(1, target.unsqueeze(1))).sum()
    hit = torch.arange(logits.shape[1]) == target.unsqueeze(1)
    return loss, ((logits - total).exp() - hit.float()).to(PRODUCT)


class TokenLossFunction(torch.autograd.Function):
    """Mean cross entropy of hidden @ head^T, with the gradient made while the logits are at hand."""

    CHUNK = 256  # rows; the logits of a chunk then stay near the cache

    @staticmethod
    def forward(ctx, hidden, head, targets):
        total = 0.0
        grad_hidden = torch.empty_like(hidden)
        grad_head = torch.zeros(head.shape, dtype=torch.float32)
        chunks = (t.split(TokenLossFunction.CHUNK) for t in (hidden, targets, grad_hidden))
        for x, target, grad_x in zip(*chunks):
            loss, grad = softmax_loss(torch.mm(x, head.t()), target)
            total += loss
            if ctx.needs_input_grad[0]:
                torch.mm(grad, head, out=grad_x)
                grad_head += torch.mm(grad.t(), x)
        ctx.save_for_backward(grad_hidden, grad_head)
        return total / len(targets)

    @staticmethod
    def backward(ctx, grad):
        grad_hidden, grad_head = ctx.saved_tensors
        factor = grad / len(grad_hidden)
        return grad_hidden * factor, (grad_head * factor).to(PRODUCT), None


def token_losses(hidden, head, targets):
    return TokenLossFunction.apply(hidden, head, targets)


def fake_nvfp4(stack):
    """Rounds every matrix of [E, out, in] to NVFP4 and back; the gradient passes straight through."""
    with torch.no_grad():
        rounded = nvfp4_round_trip(stack)
    return stack + (rounded - stack.detach())


@torch.compile(dynamic=True)
def nvfp4_round_trip(stack):
    """The value NVFP4 gives back: blocks of 16, E4M3 block scales, one float32 scale per matrix."""
    tensor_scale = stack.abs().amax(dim=(1, 2), keepdim=True).unsqueeze(-1).clamp_min(1e-12) / (6 * 448)
    blocks = stack.unflatten(-1, (-1, 16))
    block_scale = blocks.abs().amax(-1, keepdim=True) / (6 * tensor_scale)
    block_scale = block_scale.clamp(2**-9, 448).to(torch.float8_e4m3fn).float() * tensor_scale
    return (round_e2m1(blocks / block_scale) * block_scale).flatten(-2)


def round_e2m1(x):
    """Nearest of 0, 0.5, 1, 1.5, 2, 3, 4, 6 with the sign kept, ties to the even code, saturating."""
    size = x.abs().clamp_max(6.0)
    # The spacing is 0.5 below 2, 1 below 4, 2 above; torch.round takes ties to even multiples, which
    # are the even codes in each of the three ranges.
    low, middle, high = (size * 2).round() / 2, size.round(), (size / 2).round() * 2
    rounded = torch.where(size < 2, low, torch.where(size < 4, middle, high))
    return torch.copysign(rounded, x)
