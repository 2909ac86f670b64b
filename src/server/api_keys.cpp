#include "server/api_keys.h"

#include "base/error.h"
#include "base/mapped_file.h"

namespace tagalong::server {
namespace {

constexpr std::string_view kBlank = " \t\r";
constexpr std::size_t kMaxKeyFile = std::size_t{1} << 20;

// Looks at every byte of `shown`, whatever it finds.
bool equal_in_constant_time(std::string_view key, std::string_view shown) {
  unsigned difference = key.size() == shown.size() ? 0 : 1;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    difference |= static_cast<unsigned>(static_cast<unsigned char>(shown[i]) ^
                                        static_cast<unsigned char>(key[i % key.size()]));
  }
  return difference == 0;
}

std::string_view shown_key(const HttpRequest& request) {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view authorization = request.header("Authorization");
  if (same_name(authorization.substr(0, kBearer.size()), kBearer))
    return authorization.substr(kBearer.size());
  return request.header("X-Api-Key");
}

}  // namespace

ApiKeys ApiKeys::load(const std::filesystem::path& file) {
  const std::string text = base::read_text_file(file, kMaxKeyFile);
  std::vector<std::string> keys;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    const std::size_t first = line.find_first_not_of(kBlank);
    if (first != std::string_view::npos) {
      keys.emplace_back(line.substr(first, line.find_last_not_of(kBlank) - first + 1));
    }
    begin = end + 1;
  }
  if (keys.empty()) throw base::input_error("{}: no API key in it, expected one a line", file.string());
  return ApiKeys(std::move(keys));
}

bool ApiKeys::admit(const HttpRequest& request) const {
  if (keys_.empty()) return true;
  const std::string_view shown = shown_key(request);
  bool admitted = false;
  for (const std::string& key : keys_) admitted |= equal_in_constant_time(key, shown);
  return admitted;
}

}  // namespace tagalong::server
