"""Reads an exported model directory back: every tensor in float32, NVFP4 experts dequantised and
stacked under the names of the training model."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file

from model import CONFIG, Storyteller
from nvfp4 import unpack


def read_dequantised(model_dir):
    """Tensors under their names on disk, with `X.weight_scale*` folded into `X.weight`."""
    raw = load_file(Path(model_dir) / "model.safetensors")
    out = {}
    for name, tensor in raw.items():
        if f"{name}_scale_2" in raw:
            out[name] = unpack(tensor, raw[f"{name}_scale"], raw[f"{name}_scale_2"])
        elif not name.endswith((".weight_scale", ".weight_scale_2")):
            out[name] = tensor.float()
    return out


def stack_experts(tensors):
    """Per-expert tensors as the stacks gate_up_proj [E, 2I, H] and down_proj [E, H, I]."""
    out, experts = {}, {}
    for name, tensor in tensors.items():
        if ".mlp.experts." in name:
            prefix, rest = name.split(".experts.")
            index, projection, _ = rest.split(".")
            experts.setdefault(prefix, {})[int(index), projection] = tensor
        else:
            out[name] = tensor
    for prefix, found in experts.items():
        count = 1 + max(index for index, _ in found)
        pick = lambda projection: torch.stack([found[e, projection] for e in range(count)])
        out[f"{prefix}.experts.gate_up_proj"] = torch.cat([pick("gate_proj"), pick("up_proj")], dim=1)
        out[f"{prefix}.experts.down_proj"] = pick("down_proj")
    return out


def load_storyteller(model_dir):
    config = json.loads((Path(model_dir) / "config.json").read_text())
    config["rope_theta"] = config["rope_parameters"]["rope_theta"]
    model = Storyteller({key: config[key] for key in CONFIG})
    model.load_state_dict(stack_experts(read_dequantised(model_dir)))
    return model.eval()
