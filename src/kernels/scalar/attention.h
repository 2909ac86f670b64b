// The readable forms of latent_attention and index_scores, for the scalar table.
#pragma once

#include "kernels/kernels.h"

namespace tagalong::kernels::scalar {

void latent_attention(const LatentAttention& a);
void index_scores(const IndexScores& a);

}  // namespace tagalong::kernels::scalar
