"""NVFP4 in the layout of NVIDIA's ModelOpt: pack and unpack one weight matrix.

A weight [out, in] becomes `weight` (U8 [out, in/2], two E2M1 codes a byte, even element in the low
nibble), `weight_scale` (F8_E4M3 [out, in/16]) and `weight_scale_2` (F32 scalar):
W = E2M1 * weight_scale * weight_scale_2.
"""

import torch

E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
BLOCK = 16


def encode_e2m1(x):
    """Codes 0..15 of the nearest values: ties to the even code, saturating, sign in bit 3."""
    size = x.abs()
    code = torch.zeros_like(size, dtype=torch.uint8)
    # A tie belongs to the even neighbour: the bound is passed at equality where the upper is even.
    for bound, passes_at_equality in (
        (0.25, False), (0.75, True), (1.25, False), (1.75, True), (2.5, False), (3.5, True), (5.0, False),
    ):
        code += (size >= bound) if passes_at_equality else (size > bound)
    return code | (torch.signbit(x).to(torch.uint8) << 3)


def decode_e2m1(code):
    value = E2M1[(code & 7).long()]
    return torch.where(code & 8 != 0, -value, value)


def pack(weight, search=False):
    """Returns (weight, weight_scale, weight_scale_2). With `search`, each block also tries the scales
    a little above and below amax/6 and keeps the one with the least squared error; readers see no
    difference."""
    weight = weight.float()
    rows, columns = weight.shape
    blocks = weight.view(rows, columns // BLOCK, BLOCK)
    scale_2 = weight.abs().max() / (6 * 448)
    base = blocks.abs().amax(-1) / (6 * scale_2)
    best_scale = best_code = best_error = None
    # 1.0 first: on equal error the plain rule stands. 1.5 puts the largest value at 4 instead of 6.
    for factor in (1.0, 0.9, 0.95, 1.05, 1.1, 1.2, 1.3, 1.4, 1.5) if search else (1.0,):
        scale = (base * factor).clamp(2**-9, 448).to(torch.float8_e4m3fn)
        scale = torch.where(base == 0, torch.ones_like(scale), scale)
        step = (scale.float() * scale_2).unsqueeze(-1)
        code = encode_e2m1(blocks / step)
        error = (decode_e2m1(code) * step - blocks).square().sum(-1)
        if best_error is None:
            best_scale, best_code, best_error = scale, code, error
            continue
        better = error < best_error
        best_scale = torch.where(better, scale.float(), best_scale.float()).to(torch.float8_e4m3fn)
        best_code = torch.where(better.unsqueeze(-1), code, best_code)
        best_error = torch.where(better, error, best_error)
    code = best_code.view(rows, columns)
    return code[:, 0::2] | (code[:, 1::2] << 4), best_scale, scale_2


def unpack(weight, scale, scale_2):
    code = torch.stack([weight & 15, weight >> 4], dim=-1).view(weight.shape[0], -1, BLOCK)
    return (decode_e2m1(code) * (scale.float() * scale_2).unsqueeze(-1)).flatten(1)
