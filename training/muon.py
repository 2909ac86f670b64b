"""Optimisers: Muon for matrices, AdamW (torch's own) for everything else.

Muon takes the momentum of a matrix's gradient and replaces it by the nearest orthogonal matrix, so
that every direction of the matrix moves at the same speed. Newton-Schulz iterations do this with
products alone, in bfloat16, for a whole stack of matrices at once.
"""

import torch


def orthogonalise(stack, steps=5):
    """Nearly orthogonal matrices (singular values about 0.7 to 1.2) for a stack [N, rows, columns]."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = stack / (stack.norm(dim=(1, 2), keepdim=True) + 1e-12)
    x = x.to(torch.bfloat16)
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.transpose(1, 2).contiguous()
    for _ in range(steps):
        gram = torch.bmm(x, x.transpose(1, 2))
        poly = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.baddbmm(x, poly, x, beta=a)
    return x.transpose(1, 2) if tall else x


class Muon(torch.optim.Optimizer):
    """Parameters are matrices or stacks of matrices. `parts` of a group says how many matrices lie
    above one another in each (2 for gate over up), since each is orthogonalised by itself."""

    def __init__(self, groups, lr, momentum=0.95, weight_decay=0.0):
        super().__init__(groups, dict(lr=lr, momentum=momentum, weight_decay=weight_decay, parts=1))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p)
                momentum = state["momentum"].lerp_(p.grad, 1 - group["momentum"])
                update = p.grad.lerp(momentum, group["momentum"])  # Nesterov
                rows = p.shape[-2] // group["parts"]
                update = orthogonalise(update.view(-1, rows, p.shape[-1])).reshape(p.shape)
                # Equal change of the outputs, whatever the shape.
                size = max(1.0, rows / p.shape[-1]) ** 0.5
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(update, alpha=-group["lr"] * size)
