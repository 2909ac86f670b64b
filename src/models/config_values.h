// Reading of config.json that all architectures have in common.
#pragma once

#include <string_view>

#include "checkpoint/config.h"

namespace tagalong::models {

// A size of the model, which must be a multiple of `multiple`.
int dimension(const checkpoint::Config& config, std::string_view key, int multiple = 1);

// Refuses biases, activations other than silu, and scaled rotary embeddings, by the key that asks for them.
void refuse_unless_plain_decoder(const checkpoint::Config& config);

}  // namespace tagalong::models
