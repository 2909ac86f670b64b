"""Makes one golden set: a tiny random checkpoint and what transformers computes on it, in float64.

Shared by the make.py of every architecture; each brings its configurations, its weights and the module
that runs transformers (build, stack_experts, prefill, decode, float64_everywhere).
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "training"))

from nvfp4 import pack, unpack  # noqa: E402

PROMPT_LENGTHS = [24, 1, 7, 13, 22, 40]  # the first is the single prompt, the others the batch of five


def modelopt_nvfp4(ignore):
    """What config.json declares for an NVFP4 checkpoint."""
    values = {"num_bits": 4, "type": "float", "group_size": 16, "dynamic": False}
    return {
        "quant_method": "modelopt",
        "quant_algo": "NVFP4",
        "config_groups": {"group_0": {"weights": values, "targets": ["Linear"]}},
        "ignore": ignore,
    }


class RandomTensors(dict):
    """Float32 tensors under their names on disk. Matrices keep the scale of their input, a little
    enlarged so that attention and routing are decided rather than flat; norms and biases are random."""

    def __init__(self, seed):
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape):
        return torch.randn(*shape, generator=self.generator)

    def matrix(self, name, rows, columns, gain=1.3):
        self[f"{name}.weight"] = self.normal(rows, columns) * gain * columns**-0.5

    def norm(self, name, size):
        self[f"{name}.weight"] = 1 + 0.2 * self.normal(size)

    def mlp(self, name, hidden, inner):
        self.matrix(f"{name}.gate_proj", inner, hidden)
        self.matrix(f"{name}.up_proj", inner, hidden)
        self.matrix(f"{name}.down_proj", hidden, inner)


def store(weights, storage, is_packed):
    """Tensors as written, and the float32 values a reader gets back from them."""
    written, values = {}, {}
    for name, tensor in weights.items():
        if storage == "nvfp4" and is_packed(name):
            code, scale, scale_2 = pack(tensor, search=False)
            written |= {name: code, f"{name}_scale": scale, f"{name}_scale_2": scale_2}
            values[name] = unpack(code, scale, scale_2)
        elif storage == "f32" or name.endswith("e_score_correction_bias"):
            written[name] = values[name] = tensor
        else:
            written[name] = tensor.to(torch.bfloat16)
            values[name] = written[name].float()
    return {k: v.contiguous() for k, v in written.items()}, values


def compare(a, b):
    """Largest difference of the real values; the choices must be the same."""
    worst = {}
    for name, value in a.items():
        if value.dtype == torch.int32:
            if not torch.equal(value, b[name]):
                return None
        else:
            kind = name.split(".")[-1]
            worst[kind] = max(worst.get(kind, 0.0), (value.double() - b[name].double()).abs().max().item())
    return worst


def largest(results):
    kinds = {kind for r in results for kind in r}
    return {kind: max(r.get(kind, 0.0) for r in results) for kind in sorted(kinds)}


def run(reference, config, values, prompts):
    """Expected tensors, and how far float32 and cached decoding are from them; None when a choice of
    expert or position is so close that it depends on the precision."""
    weights = reference.stack_experts(values, config)
    single = reference.build(config, weights, torch.float32)
    with reference.float64_everywhere():
        double = reference.build(config, weights, torch.float64)
        expected = [reference.prefill(double, ids) for ids in prompts]
        decoded = [reference.decode(double, ids) for ids in prompts]
    in_single = [reference.prefill(single, ids) for ids in prompts]
    decoded_single = [reference.decode(single, ids) for ids in prompts]
    assert all(v.dtype in (torch.float64, torch.int32) for e in expected for v in e.values())
    pairs = {
        "float32_vs_float64": zip(in_single, expected),
        "decode_vs_prefill_float64": zip(decoded, expected),
        "decode_vs_prefill_float32": zip(decoded_single, in_single),
    }
    report = {}
    for name, both in pairs.items():
        results = [compare(a, b) for a, b in both]
        if None in results:
            return None
        report[name] = largest(results)
    return expected, report


def make(folder, reference, config, storage, random_weights, is_packed):
    """Writes one variant to `folder`. random_weights(config, seed) makes float32 tensors under their names on
    disk; is_packed(name) says which of them NVFP4 storage packs."""
    generator = torch.Generator().manual_seed(7)
    prompts = [torch.randint(1, config["vocab_size"], (n,), generator=generator).tolist() for n in PROMPT_LENGTHS]
    for seed in range(100):
        written, values = store(random_weights(config, seed), storage, is_packed)
        result = run(reference, config, values, prompts)
        if result and robust(reference, config, values, prompts, result[0]):
            break
    expected, report = result
    folder.mkdir(exist_ok=True)
    save_file(written, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    flat = {}
    for index, seen in enumerate(expected):
        for key, value in seen.items():
            flat[f"prompt.{index}.{key}"] = (value if value.dtype == torch.int32 else value.float()).contiguous()
    save_file(flat, folder / "expected.safetensors")
    index = {"seed": seed, "single": 0, "batch": [1, 2, 3, 4, 5], "prompts": prompts, "differences": report}
    (folder / "prompts.json").write_text(json.dumps(index) + "\n")
    print(folder.name, "seed", seed, "model bytes", (folder / "model.safetensors").stat().st_size)
    for key, value in report.items():
        print("  ", key, {k: f"{v:.1e}" for k, v in value.items()})


def robust(reference, config, values, prompts, expected, noise=1e-5):
    """Whether all choices survive a relative disturbance of every weight: an implementation may round
    differently and must still choose the same experts and positions."""
    generator = torch.Generator().manual_seed(3)
    shaken = {k: v * (1 + noise * torch.randn(v.shape, generator=generator)) for k, v in values.items()}
    model = reference.build(config, reference.stack_experts(shaken, config), torch.float32)
    return all(compare(reference.prefill(model, ids), seen) is not None for ids, seen in zip(prompts, expected))
