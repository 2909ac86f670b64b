// A place in a JSON document that knows its path, so that every complaint names it.
//
// A view: the simdjson parser must outlive it. One thread. All getters throw InputError.
#pragma once

#include <fmt/format.h>
#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace tagalong::tokenizer {

class JsonView {
 public:
  JsonView(simdjson::dom::element element, std::string path) : element_(element), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  const simdjson::dom::element& element() const { return element_; }
  bool is_null() const { return element_.is_null(); }
  bool is_string() const { return element_.is_string(); }

  // The member, or nothing when it is absent or null.
  std::optional<JsonView> find(std::string_view key) const {
    simdjson::dom::element member;
    if (object()[key].get(member) != simdjson::SUCCESS || member.is_null()) return std::nullopt;
    return JsonView(member, fmt::format("{}.{}", path_, key));
  }
  JsonView at(std::string_view key) const {
    const auto member = find(key);
    if (!member) throw base::input_error("{}: \"{}\" is missing", path_, key);
    return *member;
  }

  simdjson::dom::object object() const { return get<simdjson::dom::object>("an object"); }
  simdjson::dom::array array() const { return get<simdjson::dom::array>("an array"); }
  std::string_view string() const { return get<std::string_view>("a string"); }
  bool boolean() const { return get<bool>("true or false"); }
  std::int64_t integer() const { return get<std::int64_t>("an integer"); }

  std::string_view string(std::string_view key) const { return at(key).string(); }
  bool boolean(std::string_view key, bool absent) const {
    const auto member = find(key);
    return member ? member->boolean() : absent;
  }
  // Calls each(JsonView) for the elements of the array.
  template <typename Each>
  void for_each(Each&& each) const {
    std::size_t index = 0;
    for (const simdjson::dom::element element : array())
      each(JsonView(element, fmt::format("{}[{}]", path_, index++)));
  }

 private:
  template <typename T>
  T get(std::string_view expected) const {
    T value;
    if (element_.get(value) != simdjson::SUCCESS) throw base::input_error("{}: expected {}", path_, expected);
    return value;
  }

  simdjson::dom::element element_;
  std::string path_;
};

}  // namespace tagalong::tokenizer
