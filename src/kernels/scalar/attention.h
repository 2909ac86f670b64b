// The readable forms of all attention, for the scalar table.
#pragma once

#include "kernels/kernels.h"

namespace tagalong::kernels::scalar {

void attention_part(const AttentionPart& a);
void index_scores(const IndexScores& a);
void fold_attention(const AttentionFold& f);
void finish_attention(const AttentionSums& sums, int heads, int dim);

}  // namespace tagalong::kernels::scalar
