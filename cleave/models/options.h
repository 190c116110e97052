#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cleave::models {

// The options of a model's name, "layers=2&d=128". The code that builds the model asks for every
// option that it has, with its default; `finish` throws a UserError that names an option that was
// not asked for, and lists those that exist.
class Options {
 public:
  Options(std::string model, std::string_view text);

  void read(const char* name, int64_t& value);
  void read(const char* name, double& value);
  void read(const char* name, std::vector<int64_t>& values);  // "2,2"
  std::string choice(const char* name,
                     const std::vector<std::string>& choices);  // the first is the default
  // The number of the choice that was made, as an enum; `otherwise` is the default.
  template <typename E>
  E choice(const char* name, const std::vector<std::string>& choices, E otherwise) {
    return static_cast<E>(index_of(name, choices, static_cast<size_t>(otherwise)));
  }
  void read(const char* name, bool& value);  // "yes" or "no"
  std::optional<std::string> text(const char* name);

  void finish() const;
  std::string describe() const;  // the options with their defaults

 private:
  std::optional<std::string> take(const char* name);
  size_t index_of(const char* name, const std::vector<std::string>& choices, size_t otherwise);
  void check_size(const char* name, int64_t value) const;

  std::string model_;
  std::map<std::string, std::string, std::less<>> values_;
  std::vector<std::string> known_;
};

}  // namespace cleave::models
