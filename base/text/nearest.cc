#include "base/text/nearest.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "base/text/quote.h"

namespace mooring {
namespace {

constexpr std::size_t kMostCharacters = 256;  // the cost grows with the square

// How many characters have to be inserted, deleted or replaced.
std::size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string DidYouMean(std::string_view word, const std::vector<std::string>& names) {
  std::size_t least = std::min<std::size_t>(word.size() / 3, 3) + 1;
  const std::string* nearest = nullptr;
  for (const std::string& name : names) {
    const std::size_t longer = std::max(name.size(), word.size()), shorter = std::min(name.size(), word.size());
    if (name.empty() || longer > kMostCharacters || longer - shorter >= least) continue;
    const std::size_t distance = Distance(word, name);
    if (distance >= least) continue;
    least = distance;
    nearest = &name;
  }
  return nearest == nullptr ? "" : "; did you mean " + Quote(*nearest) + "?";
}

}  // namespace mooring
