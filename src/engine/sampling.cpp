#include "engine/sampling.h"

#include <cmath>

#include "base/error.h"

namespace tagalong::engine {

// The comparisons are written so that NaN fails them.
void validate(const SamplingParams& params) {
  if (!(params.temperature >= 0) || !std::isfinite(params.temperature)) {
    throw base::input_error("temperature is {}, expected a finite number of at least 0", params.temperature);
  }
  if (params.top_k < 0) throw base::input_error("top_k is {}, expected 0 (off) or more", params.top_k);
  if (!(params.top_p > 0 && params.top_p <= 1)) {
    throw base::input_error("top_p is {}, expected more than 0 and at most 1", params.top_p);
  }
  if (!(params.min_p >= 0 && params.min_p <= 1)) {
    throw base::input_error("min_p is {}, expected 0 to 1", params.min_p);
  }
}

}  // namespace tagalong::engine
