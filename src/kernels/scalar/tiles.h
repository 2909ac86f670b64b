// The readable product tiles and the quantisation that they want, for the scalar tables.
#pragma once

#include "kernels/kernels.h"

namespace tagalong::kernels::scalar {

void f32_tile(const FloatTile& t);
void bf16_tile(const FloatTile& t);
void fp8_tile(const FloatTile& t);

template <Compute kCompute>
void nvfp4_tile(const QuantizedTile& t);
template <Compute kCompute>
void mxfp4_tile(const QuantizedTile& t);
template <Compute kCompute>
void q8_tile(const QuantizedTile& t);
template <Compute kCompute>
void quantize(const float* x, int n, std::byte* out);

}  // namespace tagalong::kernels::scalar
