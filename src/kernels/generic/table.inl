// The table of an including file, of all that was defined before.

template <Compute kCompute>
constexpr Kernels make_table(std::string_view name) {
  return {
      .name = name,
      .compute = kCompute,
      .f32_tile = f32_tile,
      .bf16_tile = bf16_tile,
      .fp8_tile = fp8_tile,
      .nvfp4_tile = quantized_tile<Nvfp4Block, kCompute>,
      .mxfp4_tile = quantized_tile<Mxfp4Block, kCompute>,
      .q8_tile = quantized_tile<Q8Block, kCompute>,
      .quantize = quantize<kCompute>,
      .rms_norm = rms_norm,
      .layer_norm = layer_norm,
      .silu_mul = silu_mul,
      .silu_mul_quantize = silu_mul_quantize<kCompute>,
      .axpy = axpy,
      .axpy_rows = axpy_rows,
      .attention_part = attention_part,
      .fold_attention = fold_attention,
      .finish_attention = finish_attention,
      .index_scores = index_scores,
      .read_stream = read_stream,
      .multiply_peak = multiply_peak,
  };
}
