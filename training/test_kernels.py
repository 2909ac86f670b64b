"""Compares the hand-written gradients of kernels.py with plain PyTorch: python test_kernels.py

bfloat16 keeps 8 bits, so results of a few rounded steps may differ by about 1 % in norm.
"""

import torch
import torch.nn.functional as F

import kernels
from nvfp4 import decode_e2m1, encode_e2m1, pack, unpack

LIMIT = 0.01


def difference(a, b):
    return ((a.float() - b.float()).norm() / b.float().norm()).item()


def check(name, ours, theirs, inputs, copies):
    differences = [difference(ours, theirs)]
    differences += [difference(a.grad, b.grad) for a, b in zip(inputs, copies)]
    print(name, " ".join(f"{d:.1e}" for d in differences))
    assert max(differences) < LIMIT, name


def leaves(*tensors):
    """Inputs for our function and float32 copies for PyTorch's."""
    return [t.detach().requires_grad_() for t in tensors], [t.detach().float().requires_grad_() for t in tensors]


def test_rms_norm():
    (x, w), (x32, w32) = leaves(torch.randn(5, 7, 64), torch.randn(64))
    ours, theirs = kernels.rms_norm(x, w, 1e-5), F.rms_norm(x32, (64,), w32, 1e-5)
    grad = torch.randn_like(ours)
    ours.backward(grad), theirs.backward(grad.float())
    check("rms_norm", ours, theirs, (x, w), (x32, w32))


def test_attention():
    shapes = ((2, 3, 32, 16), (2, 3, 32, 16), (2, 3, 32, 8))
    inputs, copies = leaves(*(torch.randn(s).bfloat16() for s in shapes))
    ours = kernels.causal_attention(*inputs)
    theirs = F.scaled_dot_product_attention(*copies, is_causal=True, scale=1.0)
    grad = torch.randn_like(ours)
    ours.backward(grad), theirs.backward(grad.float())
    check("causal_attention", ours, theirs, inputs, copies)


def test_routed_experts():
    tokens, hidden, experts, inner, top_k = 256, 64, 8, 32, 3
    chosen = torch.stack([torch.randperm(experts)[:top_k] for _ in range(tokens)])
    inputs, copies = leaves(
        torch.randn(tokens, hidden).bfloat16(),
        torch.rand(tokens, top_k),
        (torch.randn(experts, 2 * inner, hidden) / 8).bfloat16(),
        (torch.randn(experts, hidden, inner) / 6).bfloat16(),
    )
    x, weights, gate_up, down = inputs
    ours = kernels.routed_experts(x, weights, chosen, gate_up, down)
    x, weights, gate_up, down = copies
    theirs = 0
    for k in range(top_k):
        gate, up = torch.einsum("nh,noh->no", x, gate_up[chosen[:, k]]).chunk(2, dim=1)
        theirs = theirs + torch.einsum("ni,nhi->nh", F.silu(gate) * up * weights[:, k : k + 1], down[chosen[:, k]])
    grad = torch.randn_like(ours)
    ours.backward(grad), theirs.backward(grad.float())
    check("routed_experts", ours, theirs, inputs, copies)


def test_token_losses():
    (x, w), (x32, w32) = leaves(torch.randn(600, 64).bfloat16(), torch.randn(100, 64).bfloat16())
    targets = torch.randint(0, 100, (600,))
    ours, theirs = kernels.token_losses(x, w, targets), F.cross_entropy(x32 @ w32.t(), targets)
    (3 * ours).backward(), (3 * theirs).backward()
    check("token_losses", ours, theirs, (x, w), (x32, w32))


def test_nvfp4():
    bounds = torch.tensor([0.25, 0.26, 0.74, 0.75, 1.25, 1.26, 1.75, 2.5, 2.51, 3.4, 3.5, 5.0, 5.1, 7.0, -5.0])
    nearest = torch.tensor([0.0, 0.5, 0.5, 1.0, 1.0, 1.5, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 6.0, 6.0, -4.0])
    assert torch.equal(kernels.round_e2m1(bounds), nearest)
    assert torch.equal(decode_e2m1(encode_e2m1(bounds)), nearest)
    stack = torch.randn(3, 32, 64)
    trained = kernels.nvfp4_round_trip(stack)
    plain = torch.stack([unpack(*pack(w)) for w in stack])
    assert torch.equal(trained, plain), "training and export round differently"
    searched = torch.stack([unpack(*pack(w, search=True)) for w in stack])
    print(f"nvfp4 error: plain {difference(plain, stack):.4f}, searched {difference(searched, stack):.4f}")
    assert difference(searched, stack) <= difference(plain, stack)


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for test in (test_rms_norm, test_attention, test_routed_experts, test_token_losses, test_nvfp4):
        test()
    print("all agree")
