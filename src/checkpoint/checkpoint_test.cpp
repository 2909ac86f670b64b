#include "checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "checkpoint/checkpoint_testing.h"
#include "tensor/formats/nvfp4.h"

namespace tagalong::checkpoint {
namespace {

using tensor::Format;
using tensor::Shape;
using tensor::WeightView;
using testing::ElementsAre;
using testing::HasSubstr;

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override { folder.write("config.json", "{}"); }

  Checkpoint open(const std::vector<TestTensor>& tensors) const {
    folder.write("model.safetensors", write_safetensors(tensors));
    return Checkpoint::open(folder.path());
  }
  // Why the weight "m" is refused.
  std::string weight_refusal(const std::vector<TestTensor>& tensors, const Shape& expected) const {
    const Checkpoint checkpoint = open(tensors);
    return refusal([&] { checkpoint.weight("m", expected); });
  }
  std::string open_refusal() const {
    return refusal([&] { Checkpoint::open(folder.path()); });
  }

  TestFolder folder;
};

// The three tensors of an NVFP4 matrix [2, 32] of module "m".
std::vector<TestTensor> nvfp4_tensors() {
  return {{"m.weight", "U8", {2, 16}, std::string(32, '\x21')},
          {"m.weight_scale", "F8_E4M3", {2, 2}, "\x38\x40\x30\x38"},
          {"m.weight_scale_2", "F32", {}, f32_bytes({0.5F})}};
}

TEST_F(CheckpointTest, FindsTensorsByName) {
  const Checkpoint checkpoint = open({{"b", "U8", {1}, "b"}, {"a", "F32", {1}, "1234"}});
  EXPECT_TRUE(checkpoint.has("a"));
  EXPECT_FALSE(checkpoint.has("c"));
  EXPECT_EQ(checkpoint.tensor("b").shape, Shape{1});
  EXPECT_EQ(checkpoint.tensors().size(), 2U);
  EXPECT_EQ(checkpoint.tensors()[0]->name, "a");
  EXPECT_EQ(checkpoint.tensor_bytes(), 5U);
}

TEST_F(CheckpointTest, ViewsStayValidWhenTheCheckpointMoves) {
  Checkpoint first = open(nvfp4_tensors());
  const WeightView weight = first.weight("m", {2, 32});
  const Checkpoint second = std::move(first);
  EXPECT_EQ(second.weight("m", {2, 32}).data, weight.data);
  EXPECT_EQ(second.tensor("m.weight").data, weight.data);
  EXPECT_EQ(tensor::weight_at(weight, 0, 0), 0.25F);
}

// Memory is let go of, not lost: values and scales read after it are the file's.
TEST_F(CheckpointTest, ReleasedWeightsCanBeReadAgain) {
  const Checkpoint checkpoint = open(nvfp4_tensors());
  const WeightView weight = checkpoint.weight("m", {2, 32});
  const auto values = [&weight] {
    std::vector<float> all;
    for (int k = 0; k < 64; ++k) all.push_back(tensor::weight_at(weight, k / 32, k % 32));
    return all;
  };
  const std::vector<float> before = values();
  checkpoint.release(weight);
  EXPECT_EQ(values(), before);
  checkpoint.release();
  EXPECT_EQ(values(), before);
  // A view of memory that is not the file's is left alone.
  std::vector<std::byte> own(1 << 16, std::byte{1});
  const WeightView copy{.name = "copy", .format = Format::kBF16, .shape = {8, 4096}, .data = own.data()};
  checkpoint.release(copy);
  EXPECT_EQ(own, std::vector<std::byte>(1 << 16, std::byte{1}));
}

TEST_F(CheckpointTest, NamesWhatIsMissing) {
  const Checkpoint checkpoint = open(
      {{"model.layers.0.mlp.up_proj.weight", "F32", {1}, "1234"}, {"model.norm.weight", "F32", {1}, "1234"}});
  EXPECT_THAT(
      refusal([&] {
        checkpoint.weight("model.layers.0.mlp.down_proj", {1, 1});
      }),
      HasSubstr("tensor 'model.layers.0.mlp.down_proj.weight': missing; below 'model.layers.0.mlp' there is "
                "'model.layers.0.mlp.up_proj.weight' only"));
  EXPECT_THAT(refusal([&] { checkpoint.tensor("model.layers.7.mlp.up_proj.weight"); }),
              HasSubstr("missing; below 'model.layers' there is 'model.layers.0.mlp.up_proj.weight' only"));
  EXPECT_THAT(refusal([&] { checkpoint.tensor("model.x"); }), HasSubstr("below 'model' there is"));
  EXPECT_THAT(
      refusal([&] { checkpoint.vector("transformer.wte.weight", 1); }),
      HasSubstr("tensor 'transformer.wte.weight': missing; none of the 2 tensors shares its first name"));
}

TEST_F(CheckpointTest, DecidesFormatsByDtype) {
  const Checkpoint checkpoint = open({{"a.weight", "BF16", {1, 2}, std::string("\x80\x3F\x00\xC0", 4)},
                                      {"b.weight", "F16", {2}, std::string("\x00\x3C\x00\x3C", 4)},
                                      {"c", "F32", {1}, f32_bytes({3})}});
  const WeightView a = checkpoint.weight("a", {1, 2});
  EXPECT_EQ(a.format, Format::kBF16);
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(tensor::weight_at(a, 0, 0), 1.0F);
  EXPECT_EQ(checkpoint.weight("a.weight", {1, 2}).data, a.data);
  EXPECT_EQ(checkpoint.weight("b", {2}).format, Format::kF16);
  EXPECT_EQ(tensor::weight_at(checkpoint.weight("c", {1}), 0, 0), 3.0F);
}

TEST_F(CheckpointTest, ReadsNvfp4) {
  const Checkpoint checkpoint = open(nvfp4_tensors());
  const WeightView weight = checkpoint.weight("m", {2, 32});
  EXPECT_EQ(weight.format, Format::kNVFP4);
  EXPECT_EQ(weight.shape, (Shape{2, 32}));
  // Low nibble 1 is 0.5, high nibble 2 is 1; scales 1, 2, 0.5, 1; factor 0.5.
  EXPECT_EQ(tensor::weight_at(weight, 0, 0), 0.25F);
  EXPECT_EQ(tensor::weight_at(weight, 0, 1), 0.5F);
  EXPECT_EQ(tensor::weight_at(weight, 0, 17), 1.0F);
  EXPECT_EQ(tensor::weight_at(weight, 1, 1), 0.25F);
  EXPECT_EQ(tensor::weight_at(weight, 1, 31), 0.5F);
}

TEST_F(CheckpointTest, ReadsRandomNvfp4LikeItsDefinition) {
  std::mt19937 random(3);
  std::string data(4 * 24, '\0');
  std::string scales(4 * 3, '\0');
  for (char& byte : data) byte = static_cast<char>(random());
  for (char& byte : scales) byte = static_cast<char>(random() % 0x7F);
  const Checkpoint checkpoint = open({{"m.weight", "U8", {4, 24}, data},
                                      {"m.weight_scale", "F8_E4M3", {4, 3}, scales},
                                      {"m.weight_scale_2", "F32", {1}, f32_bytes({0.125F})}});
  const WeightView weight = checkpoint.weight("m", {4, 48});
  for (std::size_t row = 0; row < 4; ++row) {
    for (std::size_t column = 0; column < 48; ++column) {
      const auto byte = static_cast<unsigned char>(data[row * 24 + column / 2]);
      const auto scale = static_cast<std::uint8_t>(scales[row * 3 + column / 16]);
      const float expected = tensor::e2m1_to_float(column % 2 == 0 ? byte & 15U : byte >> 4U) *
                             tensor::e4m3_to_float(scale) * 0.125F;
      EXPECT_EQ(tensor::weight_at(weight, static_cast<std::int64_t>(row), static_cast<std::int64_t>(column)),
                expected);
    }
  }
}

TEST_F(CheckpointTest, RefusesWrongShapes) {
  const std::vector<TestTensor> plain{{"m.weight", "F32", {1, 2}, "12345678"}};
  EXPECT_THAT(weight_refusal(plain, {2, 1}),
              HasSubstr("tensor 'm.weight': expected shape [2, 1], found [1, 2]; transposed?"));
  EXPECT_THAT(weight_refusal(plain, {1, 3}),
              HasSubstr("expected shape [1, 3], found [1, 2]; does config.json"));
  EXPECT_THAT(weight_refusal(plain, {2}), HasSubstr("expected shape [2], found [1, 2]"));
  EXPECT_THAT(
      weight_refusal(nvfp4_tensors(), {2, 64}),
      HasSubstr("tensor 'm.weight': expected shape [2, 32], found [2, 16]; NVFP4 packs two of [2, 64]"));
  EXPECT_THAT(weight_refusal(nvfp4_tensors(), {2, 40}), HasSubstr("an input dimension divisible by 16"));
  EXPECT_THAT(weight_refusal(nvfp4_tensors(), {32}), HasSubstr("NVFP4 needs a matrix"));
}

TEST_F(CheckpointTest, RefusesIncompleteNvfp4) {
  const auto changed = [&](std::size_t index, auto change) {
    std::vector<TestTensor> tensors = nvfp4_tensors();
    change(tensors[index]);
    return weight_refusal(tensors, {2, 32});
  };
  const auto renamed = [](TestTensor& tensor) { tensor.name = "n" + tensor.name; };
  EXPECT_THAT(changed(1, renamed), HasSubstr("tensor 'm.weight_scale': missing, and 'm.weight' is U8"));
  EXPECT_THAT(changed(2, renamed), HasSubstr("tensor 'm.weight_scale_2': missing"));
  EXPECT_THAT(changed(1, [](TestTensor& tensor) { tensor.dtype = "I8"; }),
              HasSubstr("tensor 'm.weight_scale': expected F8_E4M3 (NVFP4), found I8"));
  EXPECT_THAT(
      changed(1,
              [](TestTensor& tensor) {
                tensor.shape = {4, 1};
              }),
      HasSubstr(
          "tensor 'm.weight_scale': expected shape [2, 2], found [4, 1]; NVFP4 has a scale for each 16"));
  for (const char nan : {'\x7F', '\xFF'}) {
    EXPECT_THAT(changed(1, [&](TestTensor& tensor) { tensor.bytes[3] = nan; }),
                HasSubstr("tensor 'm.weight_scale': holds NaN scales"));
  }
  EXPECT_EQ(changed(1, [](TestTensor& tensor) { tensor.bytes[3] = '\x7E'; }), "");
  EXPECT_EQ(changed(2, [](TestTensor& tensor) { tensor.shape = {1}; }), "");
  EXPECT_THAT(changed(2, [](TestTensor& tensor) { tensor.dtype = "I32"; }),
              HasSubstr("expected an F32 scalar, found I32 []"));
  EXPECT_THAT(changed(2,
                      [](TestTensor& tensor) {
                        tensor = {tensor.name, "F32", {2}, "12345678"};
                      }),
              HasSubstr("expected an F32 scalar, found F32 [2]"));
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float factor : {0.0F, -1.0F, kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_THAT(changed(2, [&](TestTensor& tensor) { tensor.bytes = f32_bytes({factor}); }),
                HasSubstr("tensor 'm.weight_scale_2': expected a positive finite factor, found"));
  }
}

TEST_F(CheckpointTest, RefusesOtherSchemesByName) {
  const std::vector<std::pair<TestTensor, const char*>> marks{
      {{"m.pre_quant_scale", "BF16", {1}, "12"}, "'m.pre_quant_scale': belongs to NVFP4_AWQ"},
      {{"m.svdquant_lora_a", "BF16", {1}, "12"}, "belongs to NVFP4_SVD"},
      {{"m.svdquant_lora_b", "BF16", {1}, "12"}, "belongs to NVFP4_SVD"},
      {{"m.weight_scale_inv", "F32", {1}, "1234"}, "belongs to FP8 with block scales"},
      {{"m.weight_packed", "U8", {1}, "1"}, "belongs to compressed-tensors"},
      {{"m.weight_global_scale", "F32", {1}, "1234"}, "belongs to compressed-tensors NVFP4"},
      {{"m.weight_zero_point", "I8", {1}, "1"}, "belongs to compressed-tensors"},
      {{"m.qweight", "I32", {1}, "1234"}, "belongs to GPTQ or AWQ"},
      {{"m.SCB", "F32", {1}, "1234"}, "belongs to bitsandbytes INT8"},
      {{"m.weight.absmax", "U8", {1}, "1"}, "belongs to bitsandbytes 4-bit"},
      {{"m_blocks", "U8", {1}, "1"}, "'m_blocks': belongs to MXFP4"}};
  for (const auto& [mark, message] : marks) {
    std::vector<TestTensor> tensors = nvfp4_tensors();
    tensors.push_back(mark);
    EXPECT_THAT(weight_refusal(tensors, {2, 32}), HasSubstr(message));
    // The same with nothing beside it, for those schemes that have no tensor "weight".
    const Checkpoint checkpoint = open({mark});
    EXPECT_THAT(refusal([&] { checkpoint.optional_weight("m", {2, 32}); }), HasSubstr("not implemented"));
  }
  std::vector<TestTensor> mxfp4 = nvfp4_tensors();
  mxfp4[1].dtype = "U8";
  EXPECT_THAT(weight_refusal(mxfp4, {2, 32}), HasSubstr("U8 scales mark MXFP4, which is not implemented"));
  mxfp4[1].dtype = "F8_E8M0";
  EXPECT_THAT(weight_refusal(mxfp4, {2, 32}), HasSubstr("F8_E8M0 scales mark MXFP4"));
  EXPECT_THAT(weight_refusal({{"m.weight", "F8_E4M3", {1}, "1"}}, {1}),
              HasSubstr("F8_E4M3 weights (FP8) are not"));
  EXPECT_THAT(weight_refusal({{"m.weight", "I8", {1}, "1"}}, {1}),
              HasSubstr("I8 weights are not implemented"));
  EXPECT_THAT(
      weight_refusal({{"m.weight", "BF16", {1}, "12"}, {"m.weight_scale", "F32", {}, f32_bytes({1})}}, {1}),
      HasSubstr("tensor 'm.weight_scale': scales for 'm.weight', which is plain BF16"));
}

TEST_F(CheckpointTest, ComparesWithTheDeclaredQuantization) {
  const auto with_config = [&](std::string_view text) {
    folder.write("config.json", text);
    return weight_refusal(nvfp4_tensors(), {2, 32});
  };
  EXPECT_EQ(with_config(R"({"quantization_config":{"quant_method":"modelopt","quant_algo":"NVFP4"}})"), "");
  EXPECT_EQ(
      with_config(R"({"quantization_config":{"quant_method":"modelopt","quant_algo":"MIXED_PRECISION"}})"),
      "");
  EXPECT_EQ(with_config(R"({"quantization_config":{"quant_method":"fp8","moe_quant_algo":"NVFP4"}})"), "");
  EXPECT_THAT(with_config(R"({"quantization_config":{"quant_method":"modelopt","quant_algo":"NVFP4_AWQ"}})"),
              HasSubstr("looks like NVFP4, but config.json declares quantization 'modelopt NVFP4_AWQ'"));
  EXPECT_THAT(with_config(R"({"quantization_config":{"quant_method":"compressed-tensors","format":"pack"}})"),
              HasSubstr("config.json declares quantization 'compressed-tensors pack'"));
  EXPECT_THAT(with_config(R"({"quantization_config":{"quant_method":"gptq"}})"), HasSubstr("'gptq'"));
  EXPECT_THAT(refusal([&] {
                with_config(R"({"quantization_config":{"quant_method":"modelopt","quant_algo":"NVFP4",
                              "group_size":32}})");
              }),
              HasSubstr("key 'quantization_config.group_size': NVFP4 has groups of 16, found 32"));

  folder.write("hf_quant_config.json", R"({"quantization":{"quant_algo":"NVFP4_SVD"}})");
  EXPECT_THAT(with_config("{}"),
              HasSubstr("hf_quant_config.json declares quantization 'modelopt NVFP4_SVD'"));
  folder.write("hf_quant_config.json", R"({"quantization":{"quant_algo":"NVFP4","group_size":16}})");
  EXPECT_EQ(with_config("{}"), "");
}

TEST_F(CheckpointTest, DeclaredQuantizationDoesNotTouchPlainTensors) {
  folder.write("config.json", R"({"quantization_config":{"quant_method":"gptq"}})");
  EXPECT_EQ(weight_refusal({{"m.weight", "BF16", {1}, "12"}}, {1}), "");
}

TEST_F(CheckpointTest, OptionalWeights) {
  const Checkpoint checkpoint = open({{"m.weight", "BF16", {1}, "12"}});
  EXPECT_FALSE(checkpoint.optional_weight("n", {1}).has_value());
  EXPECT_TRUE(checkpoint.optional_weight("m", {1}).has_value());
  EXPECT_THAT(refusal([&] { checkpoint.optional_weight("m", {2}); }),
              HasSubstr("expected shape [2], found [1]"));
}

TEST_F(CheckpointTest, VectorsAreWidened) {
  const Checkpoint checkpoint =
      open({{"f.bias", "F32", {2}, f32_bytes({1.5F, -2})},
            {"b.weight", "BF16", {2}, std::string("\x80\x3F\x00\x40", 4)},
            {"h.weight", "F16", {1}, std::string("\x00\x3C", 2)},
            {"matrix", "F32", {2, 1}, "12345678"},
            {"ids", "I32", {1}, "1234"},
            {"nan", "F32", {2}, f32_bytes({0, std::numeric_limits<float>::quiet_NaN()})}});
  EXPECT_THAT(checkpoint.vector("f.bias", 2), ElementsAre(1.5F, -2.0F));
  EXPECT_THAT(checkpoint.vector("b.weight", 2), ElementsAre(1.0F, 2.0F));
  EXPECT_THAT(checkpoint.vector("h.weight", 1), ElementsAre(1.0F));
  EXPECT_THAT(refusal([&] { checkpoint.vector("f.bias", 3); }), HasSubstr("expected shape [3], found [2]"));
  EXPECT_THAT(refusal([&] { checkpoint.vector("f", 2); }),
              HasSubstr("tensor 'f': missing; below 'f' there is"));
  EXPECT_THAT(refusal([&] { checkpoint.vector("matrix", 2); }),
              HasSubstr("expected shape [2], found [2, 1]"));
  EXPECT_THAT(refusal([&] { checkpoint.vector("ids", 1); }),
              HasSubstr("expected F32, BF16 or F16, found I32"));
  EXPECT_THAT(refusal([&] { checkpoint.vector("nan", 2); }), HasSubstr("tensor 'nan': element 1 is nan"));
}

TEST_F(CheckpointTest, ReadsShards) {
  folder.write("one.safetensors",
               write_safetensors({{"b", "F32", {1}, f32_bytes({2})}, {"extra", "U8", {1}, "x"}}));
  folder.write("two.safetensors", write_safetensors({{"a", "F32", {1}, f32_bytes({1})}}));
  folder.write("model.safetensors.index.json",
               R"({"weight_map":{"a":"two.safetensors","b":"one.safetensors"}})");
  Checkpoint first = Checkpoint::open(folder.path());
  const tensor::Tensor* a = &first.tensor("a");
  const Checkpoint checkpoint = std::move(first);
  EXPECT_EQ(&checkpoint.tensor("a"), a);
  EXPECT_THAT(checkpoint.vector("a", 1), ElementsAre(1.0F));
  EXPECT_THAT(checkpoint.vector("b", 1), ElementsAre(2.0F));
  EXPECT_EQ(checkpoint.files().size(), 2U);
  EXPECT_EQ(checkpoint.tensors().size(), 2U) << "the index does not name 'extra'";
}

TEST_F(CheckpointTest, RefusesShardsThatContradictTheIndex) {
  folder.write("model.safetensors.index.json",
               R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  EXPECT_THAT(open_refusal(), HasSubstr("one.safetensors: cannot open: No such file"));
  folder.write("one.safetensors", write_safetensors({{"a", "U8", {1}, "a"}}));
  EXPECT_THAT(open_refusal(), HasSubstr("two.safetensors: cannot open: No such file"));
  folder.write("two.safetensors", write_safetensors({{"c", "U8", {1}, "c"}}));
  EXPECT_THAT(open_refusal(),
              HasSubstr("tensor 'b': the index places it in two.safetensors, but it is not there"));
  folder.write("two.safetensors", write_safetensors({{"b", "U8", {1}, "b"}, {"a", "U8", {1}, "a"}}));
  EXPECT_THAT(open_refusal(),
              HasSubstr("tensor 'a': is also in two.safetensors, where the index does not place it"));
}

TEST_F(CheckpointTest, RefusesAnEscapeFromTheDirectory) {
  folder.write("model.safetensors.index.json", R"({"weight_map":{"a":"../one.safetensors"}})");
  EXPECT_THAT(open_refusal(), HasSubstr("'../one.safetensors' is not a plain file name"));
}

TEST_F(CheckpointTest, RefusesWhatIsNoCheckpoint) {
  EXPECT_THAT(open_refusal(),
              HasSubstr("neither model.safetensors nor model.safetensors.index.json is there"));
  folder.write("config.json", "");
  EXPECT_THAT(open_refusal(), HasSubstr("config.json: not valid JSON"));
  std::filesystem::remove(folder.path() / "config.json");
  EXPECT_THAT(open_refusal(), HasSubstr("config.json: cannot open"));
  EXPECT_THAT(refusal([&] { Checkpoint::open(folder.path() / "none"); }), HasSubstr("none: not a directory"));
}

TEST_F(CheckpointTest, ADirectoryInPlaceOfAFileIsRefused) {
  std::filesystem::create_directory(folder.path() / "model.safetensors");
  EXPECT_THAT(open_refusal(), HasSubstr("model.safetensors: not a regular file"));
}

}  // namespace
}  // namespace tagalong::checkpoint
