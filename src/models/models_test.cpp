// What is wrong with a config or a checkpoint is said once, by name, when the model is loaded.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_testing.h"
#include "kernels/select.h"
#include "models/model.h"

namespace tagalong::models {
namespace {

using checkpoint::refusal;

const std::filesystem::path kGolden = std::filesystem::path(TAGALONG_SOURCE_DIR) / "tests/golden";
const std::filesystem::path kGlm = kGolden / "glm_moe_dsa/bf16";
const std::filesystem::path kQwen = kGolden / "qwen3_moe/bf16";

// The message for a golden checkpoint with a changed config.
std::string message_for(const std::filesystem::path& golden,
                        const std::function<void(nlohmann::json&)>& change, int threads = 1) {
  auto config = nlohmann::json::parse(std::ifstream(golden / "config.json"));
  change(config);
  const checkpoint::TestFolder folder;
  folder.write("config.json", config.dump());
  std::filesystem::copy_file(golden / "model.safetensors", folder.path() / "model.safetensors");
  base::ThreadPool pool(threads);
  return refusal([&] {
    const auto file = checkpoint::Checkpoint::open(folder.path());
    load_model(file, {.kernels = kernels::select_kernels("auto"), .pool = pool});
  });
}

TEST(LoadModel, TakesTheGoldenCheckpoints) {
  EXPECT_EQ(message_for(kGlm, [](auto&) {}), "");
  EXPECT_EQ(message_for(kQwen, [](auto&) {}), "");
}

struct BadConfig {
  const char* key;
  nlohmann::json value;  // null: the key is taken away
  const char* message;   // a part of it
};

void expect_messages(const std::filesystem::path& golden, const std::vector<BadConfig>& cases) {
  for (const BadConfig& bad : cases) {
    const std::string message = message_for(golden, [&](nlohmann::json& config) {
      if (std::string_view(bad.key) == "num_hidden_layers") {
        config.erase("mlp_layer_types");
        config.erase("indexer_types");
      }
      if (bad.value.is_null()) {
        config.erase(bad.key);
      } else {
        config[bad.key] = bad.value;
      }
    });
    EXPECT_NE(message.find(bad.message), std::string::npos) << bad.key << ": " << message;
  }
}

TEST(LoadModel, NamesTheKeyThatIsWrongForGlm) {
  expect_messages(
      kGlm,
      {
          {"model_type", "glm5_next", "'glm5_next' is not supported; supported: glm_moe_dsa, qwen3_moe"},
          {"hidden_size", nullptr, "missing key 'hidden_size'"},
          {"hidden_size", 72, "72 is not a multiple of 16"},
          {"hidden_size", 128, "model.embed_tokens.weight"},
          {"hidden_size", "64", "'hidden_size'"},
          {"num_experts_per_tok", 9, "top_k"},
          {"n_group", 3, "groups"},
          {"scoring_func", "softmax", "'softmax' is not supported"},
          {"hidden_act", "gelu", "'gelu' is not supported"},
          {"attention_bias", true, "biases are not supported"},
          {"rope_parameters", {{"rope_theta", 10000.0}, {"rope_type", "yarn"}}, "'yarn' is not supported"},
          {"indexer_types", {"shared", "full", "full"}, "the first layer shares an indexer"},
          {"indexer_types", {"full"}, "1 entries for 3 layers"},
          {"mlp_layer_types", {"dense", "moist", "sparse"}, "unknown type moist"},
          {"num_hidden_layers", 4, "model.layers.3"},
          {"index_head_dim", 8, "8 is not a multiple of 16"},
      });
}

TEST(LoadModel, NamesTheKeyThatIsWrongForQwen3) {
  expect_messages(kQwen, {
                             {"num_experts", nullptr, "missing key 'num_experts'"},
                             {"num_experts_per_tok", 9, "top_k"},
                             {"num_key_value_heads", 3, "3 does not divide 4 heads"},
                             {"head_dim", 24, "24 is not a multiple of 16"},
                             // Then it is hidden_size / heads, which is not what the tensors have.
                             {"head_dim", nullptr, "self_attn.q_proj"},
                             {"rope_theta", nullptr, "'rope_theta'"},
                             {"rope_scaling", {{"type", "yarn"}, {"factor", 4.0}}, "'yarn' is not supported"},
                             {"use_sliding_window", true, "sliding windows are not supported"},
                             {"mlp_only_layers", {1}, "model.layers.1.mlp.gate_proj"},
                             {"decoder_sparse_step", 0, "'decoder_sparse_step'"},
                             {"decoder_sparse_step", 1, "model.layers.0.mlp.gate"},
                             {"intermediate_size", nullptr, "missing key 'intermediate_size'"},
                             {"num_hidden_layers", 4, "model.layers.3"},
                             {"tie_word_embeddings", "yes", "'tie_word_embeddings'"},
                         });
}

// Every expert of a layer is wrong, and they are packed at the same time.
TEST(LoadModel, NamesTheFirstWrongExpertWithAnyNumberOfThreads) {
  for (const int threads : {1, 2, 5}) {
    const std::string message = message_for(
        kGlm, [](nlohmann::json& config) { config["moe_intermediate_size"] = 16; }, threads);
    EXPECT_NE(message.find("'model.layers.1.mlp.experts.0.gate_proj.weight'"), std::string::npos) << message;
  }
}

TEST(LoadModel, CountsBytesAndPlanes) {
  base::ThreadPool pool(2);
  const auto file = checkpoint::Checkpoint::open(kGlm);
  const auto model = load_model(file, {.kernels = kernels::select_kernels("auto"), .pool = pool});
  const ModelInfo& info = model->info();
  EXPECT_EQ(info.architecture, "glm_moe_dsa");
  EXPECT_EQ(info.layers, 3);
  EXPECT_EQ(info.moe_layers, 2);
  EXPECT_EQ(info.router.experts, 8);
  EXPECT_EQ(info.router.top_k, 3);
  EXPECT_EQ(info.expert_bytes, 3U * 64 * 64 * 2);
  // Latent, rotated key (padded to 16) and index key of each layer.
  EXPECT_EQ(info.kv_planes, (std::vector<int>{32, 16, 16, 32, 16, 16, 32, 16, 16}));
}

}  // namespace
}  // namespace tagalong::models
