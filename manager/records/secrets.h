// The secrets of a volume. They can only be stored and sent to a plugin; there is no way to print them.
#pragma once

#include <map>
#include <string>
#include <utility>

namespace mooring::manager {

class Secrets {
 public:
  Secrets() = default;
  explicit Secrets(std::map<std::string, std::string> pairs) : pairs_(std::move(pairs)) {}

  bool empty() const { return pairs_.empty(); }
  bool operator==(const Secrets&) const = default;

  // Copies the secrets into the map of a request or of a stored message.
  template <typename Map>
  void CopyTo(Map& map) const {
    for (const auto& [key, value] : pairs_) map[key] = value;
  }

 private:
  std::map<std::string, std::string> pairs_;
};

}  // namespace mooring::manager
