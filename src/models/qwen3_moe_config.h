// The hyperparameters of a qwen3_moe model, read from config.json and checked.
#pragma once

#include "checkpoint/config.h"
#include "models/decoder_config.h"
#include "nn/gqa.h"

namespace tagalong::models {

struct Qwen3MoeConfig {
  DecoderConfig decoder;
  nn::GqaConfig attention;
};

// Throws InputError naming the key for anything missing, out of range or not supported.
Qwen3MoeConfig read_qwen3_moe_config(const checkpoint::Config& config);

}  // namespace tagalong::models
