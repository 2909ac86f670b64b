"""Writes a GGUF file of a Qwen3-MoE shape with random weights, for measuring llama.cpp beside Tagalong.

    python make_gguf.py OUT.gguf --type Q4_0|Q4_K|MXFP4|NVFP4 [--layers 12] [--vocab 32768]

The shape is Qwen3-30B-A3B's: hidden size 2048, 32 query and 4 key-value heads of 128, 128 experts of
768, 8 of them per token. All matrices, the embedding and the head are in the given type; router and
norms are F32. Values are symmetric around zero: weights with a mean turn every hidden state the same
way, and the router then picks the same few experts for all tokens.
"""

import argparse

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

HIDDEN, INNER, EXPERTS, TOP_K, HEADS, KV_HEADS, HEAD = 2048, 768, 128, 8, 32, 4, 128
E2M1_RMS = 2.926  # of the sixteen values 0, .5, 1, 1.5, 2, 3, 4, 6 with both signs


def nibbles(random, blocks, count):
    return random.integers(0, 256, (blocks, count), dtype=np.uint8)


def half(value, blocks):
    return np.tile(np.frombuffer(np.float16(value).tobytes(), np.uint8), (blocks, 1))


def q4_0(random, blocks, sigma):
    """Values (q - 8) * d of q in 1..15: a zero nibble becomes an eight, so that the mean is zero."""
    replaced = np.array([(b or 8) for b in range(16)], np.uint8)
    table = replaced[np.arange(256) & 15] | replaced[np.arange(256) >> 4] << 4
    return np.concatenate([half(sigma / 4.1833, blocks), table[nibbles(random, blocks, 16)]], axis=1)


def q4_k(random, blocks, sigma):
    """Values d * 2 * q - d * 15 of q in 0..15; the twelve bytes hold the eight scales 2 and minima 15."""
    d = half(sigma / 9.2195, blocks)
    scales = np.tile(np.array([2] * 4 + [15] * 4 + [0xF2] * 4, np.uint8), (blocks, 1))
    return np.concatenate([d, d, scales, nibbles(random, blocks, 128)], axis=1)


def mxfp4(random, blocks, sigma):
    exponent = np.full((blocks, 1), 127 + round(np.log2(sigma / E2M1_RMS)), np.uint8)
    return np.concatenate([exponent, nibbles(random, blocks, 16)], axis=1)


def nvfp4(random, blocks, sigma):
    steps = max(1, round(sigma / E2M1_RMS / 2**-9))  # e4m3 below 2^-6 counts in steps of 2^-9
    assert steps < 8, steps
    return np.concatenate([np.full((blocks, 4), steps, np.uint8), nibbles(random, blocks, 32)], axis=1)


FORMATS = {"Q4_0": q4_0, "Q4_K": q4_k, "MXFP4": mxfp4, "NVFP4": nvfp4}


def tensors(layers, vocab):
    """Names and shapes (outermost first); True where the tensor is quantised."""
    yield "token_embd", (vocab, HIDDEN), True
    for n in range(layers):
        blk = f"blk.{n}."
        yield blk + "attn_norm", (HIDDEN,), False
        yield blk + "attn_q", (HEADS * HEAD, HIDDEN), True
        yield blk + "attn_k", (KV_HEADS * HEAD, HIDDEN), True
        yield blk + "attn_v", (KV_HEADS * HEAD, HIDDEN), True
        yield blk + "attn_output", (HIDDEN, HEADS * HEAD), True
        yield blk + "attn_q_norm", (HEAD,), False
        yield blk + "attn_k_norm", (HEAD,), False
        yield blk + "ffn_norm", (HIDDEN,), False
        yield blk + "ffn_gate_inp", (EXPERTS, HIDDEN), False
        yield blk + "ffn_gate_exps", (EXPERTS, INNER, HIDDEN), True
        yield blk + "ffn_up_exps", (EXPERTS, INNER, HIDDEN), True
        yield blk + "ffn_down_exps", (EXPERTS, HIDDEN, INNER), True
    yield "output_norm", (HIDDEN,), False
    yield "output", (vocab, HIDDEN), True


def values(random, shape, quantised, kind):
    if quantised:
        block, size = gguf.GGML_QUANT_SIZES[Type[kind]]
        data = FORMATS[kind](random, int(np.prod(shape)) // block, shape[-1] ** -0.5)
        assert data.shape[1] == size, (kind, data.shape, size)
        return data.reshape(*shape[:-1], shape[-1] // block * size)
    if len(shape) == 1:
        return np.ones(shape, np.float32)
    return random.standard_normal(shape, np.float32) * np.float32(shape[-1] ** -0.5)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--type", choices=FORMATS, required=True)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=32768)
    args = parser.parse_args()

    writer = gguf.GGUFWriter(args.out, "qwen3moe")
    writer.add_block_count(args.layers)
    writer.add_context_length(4096)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INNER * TOP_K)
    writer.add_expert_feed_forward_length(INNER)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(TOP_K)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(args.vocab)
    writer.add_tokenizer_model("no_vocab")

    every = list(tensors(args.layers, args.vocab))
    for name, shape, quantised in every:
        kind = Type[args.type] if quantised else Type.F32
        block, size = gguf.GGML_QUANT_SIZES[kind]
        stored = (*shape[:-1], shape[-1] // block * size) if quantised else shape
        dtype = np.uint8 if quantised else np.float32
        bytes_ = int(np.prod(shape)) // block * size
        writer.add_tensor_info(f"{name}.weight", stored, np.dtype(dtype), bytes_, raw_dtype=kind if quantised else None)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    random = np.random.default_rng(1)
    for name, shape, quantised in every:
        writer.write_tensor_data(values(random, shape, quantised, args.type))
    writer.close()


if __name__ == "__main__":
    main()
