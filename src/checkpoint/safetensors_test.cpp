#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "checkpoint/checkpoint_testing.h"

namespace tagalong::checkpoint {
namespace {

using testing::HasSubstr;

SafetensorsContents parse(std::string_view file) {
  return parse_safetensors(std::as_bytes(std::span(file.data(), file.size())), "file");
}

std::string refusal_of(std::string_view file) {
  return refusal([&] { parse(file); });
}

std::string refusal_of_header(std::string_view header, std::string_view data = "") {
  return refusal_of(file_with_header(header, data));
}

// The data of a tensor, which must lie inside the file.
std::string_view data_of(const tensor::Tensor& tensor, std::string_view file) {
  const auto* data = reinterpret_cast<const char*>(tensor.data);
  const auto size = static_cast<std::size_t>(tensor.shape.elements()) * tensor::dtype_bytes(tensor.dtype);
  EXPECT_GE(data, file.data());
  EXPECT_LE(data + size, file.data() + file.size());
  return {data, size};
}

TEST(Safetensors, ReadsWhatIsWritten) {
  const std::string file =
      write_safetensors({{"b", "F32", {2, 1}, "12345678"}, {"a", "BF16", {}, "xy"}}, R"({"format":"pt"})");
  const SafetensorsContents contents = parse(file);
  ASSERT_EQ(contents.tensors.size(), 2U);
  EXPECT_EQ(contents.tensors[0].name, "a");
  EXPECT_EQ(contents.tensors[0].shape, tensor::Shape{});
  EXPECT_EQ(contents.tensors[0].dtype, tensor::DType::kBF16);
  EXPECT_EQ(data_of(contents.tensors[0], file), "xy");
  EXPECT_EQ(contents.tensors[1].name, "b");
  EXPECT_EQ(contents.tensors[1].shape, (tensor::Shape{2, 1}));
  EXPECT_EQ(data_of(contents.tensors[1], file), "12345678");
  EXPECT_EQ(contents.metadata.at("format"), "pt");
}

TEST(Safetensors, AllowsEmptyFilesScalarsAndTensorsWithoutElements) {
  EXPECT_TRUE(parse(file_with_header("{}")).tensors.empty());
  EXPECT_TRUE(parse(file_with_header("{}      ")).tensors.empty());
  const std::string file = write_safetensors({{"none", "F32", {0, 7}, ""},
                                              {"one", "U8", {1}, "1"},
                                              {"also_none", "F32", {0}, ""},
                                              {"two", "U8", {1}, "2"}});
  EXPECT_EQ(parse(file).tensors.size(), 4U);
}

TEST(Safetensors, RoundTripsRandomFiles) {
  std::mt19937 random(2511);
  const auto below = [&](std::uint32_t bound) { return static_cast<std::int64_t>(random() % bound); };
  const std::vector<std::string> dtypes{"BOOL", "U8",   "I8",  "F8_E5M2", "F8_E4M3", "F8_E8M0", "I16", "U16",
                                        "F16",  "BF16", "I32", "U32",     "F32",     "F64",     "I64", "U64"};
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<TestTensor> tensors(static_cast<std::size_t>(below(12)));
    std::map<std::string, const TestTensor*> by_name;
    for (TestTensor& tensor : tensors) {
      tensor.name = fmt::format("layer.{}.{}", below(1000), by_name.size());
      tensor.dtype = dtypes[static_cast<std::size_t>(below(static_cast<std::uint32_t>(dtypes.size())))];
      tensor.shape.resize(static_cast<std::size_t>(below(5)));
      std::size_t bytes = tensor::dtype_bytes(*tensor::dtype_from_name(tensor.dtype));
      for (std::int64_t& extent : tensor.shape) bytes *= static_cast<std::size_t>(extent = below(5));
      tensor.bytes.resize(bytes);
      for (char& byte : tensor.bytes) byte = static_cast<char>(random());
      by_name[tensor.name] = &tensor;
    }
    const std::string file = write_safetensors(tensors);
    const SafetensorsContents contents = parse(file);
    ASSERT_EQ(contents.tensors.size(), by_name.size());
    auto expected = by_name.begin();
    for (const tensor::Tensor& tensor : contents.tensors) {
      EXPECT_EQ(tensor.name, expected->first);
      EXPECT_EQ(tensor::dtype_name(tensor.dtype), expected->second->dtype);
      EXPECT_EQ(tensor.shape, tensor::Shape(expected->second->shape));
      EXPECT_EQ(data_of(tensor, file), expected->second->bytes);
      ++expected;
    }
  }
}

TEST(Safetensors, RefusesEveryTruncation) {
  const std::string file = write_safetensors({{"a", "F32", {2}, "12345678"}, {"b", "U8", {3}, "123"}});
  for (std::size_t length = 0; length < file.size(); ++length) {
    EXPECT_NE(refusal_of(std::string_view(file).substr(0, length)), "") << length;
  }
  EXPECT_THAT(refusal_of("1234567"), HasSubstr("file: 7 bytes, too short for a safetensors file"));
  EXPECT_THAT(refusal_of(std::string_view(file).substr(0, 50)), HasSubstr("but only 42 follow its length"));
  EXPECT_THAT(refusal_of(std::string_view(file).substr(0, file.size() - 1)),
              HasSubstr("file: tensor 'b': ends at byte 11 of the data, but the file holds 10; incomplete"));
}

TEST(Safetensors, MutatedFilesAreRefusedOrStayInBounds) {
  const std::string good = write_safetensors({{"a", "F32", {2}, "12345678"}, {"b", "U8", {3}, "123"}});
  std::mt19937 random(7);
  const std::string_view alphabet = "0123456789{}[]\",:ab\\- eE.";
  int refused = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    std::string file = good;
    for (auto flips = 1 + random() % 3; flips > 0; --flips) {
      const std::size_t place = random() % file.size();
      file[place] = random() % 4 == 0 ? static_cast<char>(random()) : alphabet[random() % alphabet.size()];
    }
    try {
      for (const tensor::Tensor& tensor : parse(file).tensors) data_of(tensor, file);
    } catch (const base::InputError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 10000);
}

TEST(Safetensors, RefusesABadHeaderLength) {
  std::string file = file_with_header("{}");
  file[7] = '\x7F';
  EXPECT_THAT(refusal_of(file), HasSubstr("at most 100000000 allowed; not a safetensors file?"));
  file = std::string(8, '\xFF') + "{}";
  EXPECT_THAT(refusal_of(file), HasSubstr("header of 18446744073709551615 bytes"));
}

struct Case {
  const char* what;
  std::string header;
  const char* message;
  std::string data = "12345678";
};

class SafetensorsRefusal : public testing::TestWithParam<Case> {};

TEST_P(SafetensorsRefusal, NamesTheFault) {
  EXPECT_THAT(refusal_of_header(GetParam().header, GetParam().data), HasSubstr(GetParam().message));
}

std::string entry(std::string_view fields) { return fmt::format("{{\"a\":{{{}}}}}", fields); }
std::string f32(std::string_view shape, std::string_view offsets) {
  return entry(fmt::format(R"("dtype":"F32","shape":{},"data_offsets":{})", shape, offsets));
}
std::string two(std::string_view first, std::string_view second) {
  return fmt::format(R"({{"a":{{"dtype":"U8","shape":[4],"data_offsets":{}}},)"
                     R"("b":{{"dtype":"U8","shape":[4],"data_offsets":{}}}}})",
                     first, second);
}

INSTANTIATE_TEST_SUITE_P(
    Header, SafetensorsRefusal,
    testing::Values(
        Case{"empty", "", "does not begin with '{'"}, Case{"blank", "    ", "does not begin with '{'"},
        Case{"array", "[]", "does not begin with '{'"},
        Case{"led_by_space", " {}", "does not begin with '{'"},
        Case{"newline_after", "{}\n", "does not end with '}' and spaces"},
        Case{"zero_after", std::string("{}\0", 3), "does not end with '}' and spaces"},
        Case{"two_objects", "{}{}", "not valid JSON"},
        Case{"cut", R"({"a":{"dtype":"F32"})", "not valid JSON"},
        Case{"trailing_comma", R"({"a":1,})", "not valid JSON"},
        Case{"deep", R"({"a":)" + std::string(50000, '[') + std::string(50000, ']') + "}", "not valid JSON"},
        Case{"bad_utf8", "{\"\xC3\x28\":{}}", "not valid JSON"},
        Case{"utf8_surrogate", "{\"\xED\xA0\x80\":{}}", "not valid JSON"},
        Case{"metadata_list", R"({"__metadata__":[]})", "'__metadata__' is not an object"},
        Case{"metadata_number", R"({"__metadata__":{"n":1}})", "the value of 'n' is not a string"},
        Case{"metadata_key_twice", R"({"__metadata__":{"n":"1","n":"1"}})", "key 'n' occurs twice"},
        Case{"metadata_twice", R"({"__metadata__":{},"__metadata__":{}})", "'__metadata__' occurs twice"},
        Case{"bytes_without_tensors", "{}", "8 bytes after the last tensor"}),
    [](const auto& tested) { return std::string(tested.param.what); });

INSTANTIATE_TEST_SUITE_P(
    Entry, SafetensorsRefusal,
    testing::Values(
        Case{"no_name", R"({"":{}})", "a tensor with an empty name"},
        Case{"long_name", R"({")" + std::string(1025, 'n') + R"(":{}})", "name of 1025 bytes, at most 1024"},
        Case{"escape_in_name", R"({"a\u001b[2J":{}})", R"(tensor 'a\x1b[2J': control characters)"},
        Case{"number", R"({"a":1})", "tensor 'a': the entry is not an object"},
        Case{"extra_key", entry(R"("dtype":"F32","strides":[1])"), "unexpected key 'strides'"},
        Case{"dtype_twice", entry(R"("dtype":"F32","dtype":"F32")"), "key 'dtype' occurs twice"},
        Case{"no_dtype", entry(R"("shape":[2],"data_offsets":[0,8])"), "missing key 'dtype'"},
        Case{"no_shape", entry(R"("dtype":"F32","data_offsets":[0,8])"), "missing key 'shape'"},
        Case{"no_offsets", entry(R"("dtype":"F32","shape":[2])"), "missing key 'data_offsets'"},
        Case{"dtype_number", entry(R"("dtype":4,"shape":[2],"data_offsets":[0,8])"),
             "'dtype' is not a string"},
        Case{"dtype_unknown", entry(R"("dtype":"F4","shape":[2],"data_offsets":[0,8])"),
             "dtype 'F4' is unknown or not one that Tagalong computes with"},
        Case{"shape_number", f32("2", "[0,8]"), "'shape' is not an array"},
        Case{"shape_negative", f32("[-2]", "[0,8]"), "extent 0 of 'shape' is not an unsigned integer"},
        Case{"shape_fraction", f32("[1,2.0]", "[0,8]"), "extent 1 of 'shape' is not an unsigned integer"},
        Case{"shape_text", f32(R"(["2"])", "[0,8]"), "extent 0 of 'shape' is not an unsigned integer"},
        Case{"shape_2_to_the_63", f32("[9223372036854775808]", "[0,8]"),
             "is not an unsigned integer below 2^63"},
        Case{"shape_rank", f32("[1,1,1,1,2]", "[0,8]"), "rank above 4"},
        // 2^62 * 4 bytes and 2^32 * 2^32 * 4 bytes are 0 and 0 in 64 bits.
        Case{"overflow_one", f32("[4611686018427387904]", "[0,0]"), "overflows 63 bits"},
        Case{"overflow_two", f32("[4294967296,4294967296]", "[0,0]"), "overflows 63 bits"},
        Case{"overflow_before_zero", f32("[4294967296,4294967296,0]", "[0,0]"), "overflows 63 bits"},
        Case{"wrong_shape", f32("[3]", "[0,8]"), "F32 [3] takes 12 bytes, but data_offsets span 8"},
        Case{"offsets_one", f32("[2]", "[8]"), "'data_offsets' is not an array of two"},
        Case{"offsets_three", f32("[2]", "[0,8,8]"), "'data_offsets' is not an array of two"},
        Case{"offsets_negative", f32("[2]", "[-8,0]"), "something other than unsigned integers"},
        Case{"offsets_fraction", f32("[2]", "[0,8.0]"), "something other than unsigned integers"},
        Case{"offsets_backwards", f32("[2]", "[8,0]"), "'data_offsets' run backwards: [8, 0]"},
        Case{"offsets_huge", f32("[2]", "[18446744073709551607,18446744073709551615]"), "the file holds 8"},
        Case{"beyond_end", f32("[2]", "[8,16]"), "ends at byte 16 of the data, but the file holds 8"}),
    [](const auto& tested) { return std::string(tested.param.what); });

INSTANTIATE_TEST_SUITE_P(
    Tiling, SafetensorsRefusal,
    testing::Values(Case{"overlap", two("[0,4]", "[3,7]"),
                         "tensor 'b': begins at byte 3 of the data, inside tensor 'a' that ends at 4"},
                    Case{"same_range", two("[0,4]", "[0,4]"), "inside tensor 'a'"},
                    Case{"gap", two("[0,4]", "[5,9]"), "leaving a gap after byte 4", "123456789"},
                    Case{"gap_first", f32("[2]", "[1,9]"),
                         "tensor 'a': begins at byte 1 of the data, leaving a gap after byte 0", "123456789"},
                    Case{"rest", two("[0,4]", "[4,8]"), "1 bytes after the last tensor", "123456789"},
                    Case{"empty_inside",
                         R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
                         R"("z":{"dtype":"U8","shape":[0],"data_offsets":[3,3]}})",
                         "tensor 'z': begins at byte 3 of the data, inside tensor 'a'"},
                    Case{"name_twice",
                         R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                         R"("a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
                         "tensor 'a': the name occurs twice"},
                    Case{"name_twice_by_escape",
                         R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                         R"("\u0061":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
                         "tensor 'a': the name occurs twice"}),
    [](const auto& tested) { return std::string(tested.param.what); });

TEST(Safetensors, RefusesMillionsOfEntries) {
  std::string header = "{";
  for (int i = 0; i <= 1 << 20; ++i) {
    header += fmt::format("{}\"{}\":{{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}",
                          i == 0 ? "" : ",", i);
  }
  EXPECT_THAT(refusal_of_header(header + "}", "12345678"), HasSubstr("more than 1048576 tensors"));
}

TEST(SafetensorsFile, FindsByNameAndStaysValidWhenMoved) {
  const TestFolder folder;
  folder.write("x.safetensors", write_safetensors({{"b", "U8", {1}, "b"}, {"a", "U8", {1}, "a"}}));
  SafetensorsFile file(folder.path() / "x.safetensors");
  const tensor::Tensor* a = file.find("a");
  ASSERT_NE(a, nullptr);
  const SafetensorsFile moved = std::move(file);
  EXPECT_EQ(moved.find("a"), a);
  EXPECT_EQ(std::to_integer<char>(*a->data), 'a');
  EXPECT_EQ(moved.find("c"), nullptr);
  EXPECT_EQ(moved.find(""), nullptr);
}

TEST(SafetensorsFile, MessagesNameTheFile) {
  const TestFolder folder;
  folder.write("bad.safetensors", "");
  EXPECT_THAT(refusal([&] { SafetensorsFile(folder.path() / "bad.safetensors"); }),
              HasSubstr("bad.safetensors: 0 bytes, too short"));
  EXPECT_THAT(refusal([&] { SafetensorsFile(folder.path() / "none.safetensors"); }),
              HasSubstr("none.safetensors: cannot open"));
}

}  // namespace
}  // namespace tagalong::checkpoint
