// The name that somebody probably meant, for errors about a name that does not exist.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mooring {

// "; did you mean 'web-1'?" with the nearest of `names`. Empty: all of them differ from `word` in more than a third of
// its characters, or in more than 3.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& names);

}  // namespace mooring
