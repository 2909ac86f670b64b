// What all decoder-only models have in config.json under the same keys, and how it is read.
#pragma once

#include <string_view>
#include <vector>

#include "checkpoint/config.h"
#include "routing/router_spec.h"

namespace tagalong::models {

// The sizes of a model's frame: all but those of its attention.
struct DecoderConfig {
  int vocab = 0;
  int hidden = 0;
  int layers = 0;
  int max_context = 0;
  int intermediate = 0;         // of dense layers; 0 if there are none
  int moe_intermediate = 0;     // of a routed expert
  int shared_intermediate = 0;  // of all shared experts together; 0 if there are none
  float norm_eps = 0;
  double rope_theta = 0;
  bool tied_head = false;        // lm_head is the embedding
  routing::RouterSpec router;    // of every MoE layer, with a bias of zeros if each has one of its own
  std::vector<bool> sparse_mlp;  // [layers] MoE or dense
};

// A size of the model, which must be a multiple of `multiple`.
int dimension(const checkpoint::Config& config, std::string_view key, int multiple = 1);

// Reads what every such model has, but for router and feed-forward layers. `norm_eps` holds where the file
// has none. Throws InputError naming the key for anything missing, out of range or not supported: biases,
// activations other than silu, scaled rotary embeddings.
DecoderConfig read_decoder_config(const checkpoint::Config& config, double norm_eps);

// Sets which layers are MoE layers and reads the widths of experts and, where there are any, dense layers.
// Throws as above.
void read_feed_forward(const checkpoint::Config& config, std::vector<bool> sparse_mlp, DecoderConfig& h);

}  // namespace tagalong::models
