// The readable forms of all attention, for the scalar table.
#pragma once

#include "kernels/kernels.h"

namespace tagalong::kernels::scalar {

void latent_attention(const LatentAttention& a);
void index_scores(const IndexScores& a);
void grouped_attention(const GroupedAttention& a);
void fold_attention(const AttentionFold& f);

}  // namespace tagalong::kernels::scalar
