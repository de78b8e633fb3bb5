#include "metrics/exposition.h"

#include <prometheus/text_serializer.h>

#include <iterator>

namespace mooring::metrics {
namespace {

void Append(std::vector<prometheus::MetricFamily>& families, std::vector<prometheus::MetricFamily> more) {
  families.insert(families.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

std::string Exposition::Text() const {
  std::vector<prometheus::MetricFamily> families = collect_();
  Append(families, registry_.Collect());
  Append(families, process_.Collect());
  return static_cast<const prometheus::Serializer&>(prometheus::TextSerializer()).Serialize(families);
}

}  // namespace mooring::metrics
