// Reads members of JSON that others wrote.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace mooring::manager {

// Gives the string member `name` of `object`; "" if there is none.
inline std::string Text(const nlohmann::json& object, const char* name) {
  if (!object.is_object()) return "";
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace mooring::manager
