#include "mounter/lvm/lvm_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/whole_number.h"
#include "mounter/lvm/lvm_words.h"

namespace mooring {
namespace {

using Json = nlohmann::json;

constexpr double kMostData = 95, kMostMetadata = 90;  // percent in use, above which nothing new is made

absl::Status Malformed(std::string_view expected) {
  return Internal("the report of lvm is not as expected: {}", expected);
}

// {"report": [{KIND: [{...}, ...]}]}
absl::StatusOr<std::vector<Json>> RowsOf(const std::string& text, const char* kind) {
  const Json parsed = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return Malformed("no JSON object");
  const auto reports = parsed.find("report");
  if (reports == parsed.end() || !reports->is_array() || reports->empty()) return Malformed("no array \"report\"");
  std::vector<Json> rows;
  for (const Json& report : *reports) {
    const auto found = report.is_object() ? report.find(kind) : report.end();
    if (found == report.end() || !found->is_array()) return Malformed(fmt::format("no array \"{}\"", kind));
    for (const Json& row : *found) {
      if (!row.is_object()) return Malformed(fmt::format("an element of \"{}\" is no object", kind));
      rows.push_back(row);
    }
  }
  return rows;
}

absl::StatusOr<std::string> TextOf(const Json& row, const char* column) {
  const auto found = row.find(column);
  if (found == row.end() || !found->is_string()) return Malformed(fmt::format("no text \"{}\"", column));
  return found->get<std::string>();
}

// A string on Debian 12, and a number or null with the report format json_std of later releases.
absl::StatusOr<std::uint64_t> NumberOf(const Json& row, const char* column) {
  const auto found = row.find(column);
  if (found != row.end() && found->is_number_unsigned()) return found->get<std::uint64_t>();
  const std::optional<std::uint64_t> number =
      found != row.end() && found->is_string() ? ParseWhole<std::uint64_t>(found->get<std::string>()) : std::nullopt;
  if (number) return *number;
  return Malformed(fmt::format("no number \"{}\"", column));
}

// 0: there is none, because the volume has no device.
absl::StatusOr<double> PercentOf(const Json& row, const char* column) {
  const auto found = row.find(column);
  double percent = -1;
  if (found != row.end() && found->is_number()) {
    percent = found->get<double>();
  } else if (found != row.end() && found->is_string()) {
    const std::string text = found->get<std::string>();
    percent = text.empty() ? 0 : ParseWhole<double>(text).value_or(-1);
  } else if (found != row.end() && found->is_null()) {
    percent = 0;
  }
  if (percent >= 0 && percent <= 100) return percent;  // also refuses "nan"
  return Malformed(fmt::format("no percentage \"{}\"", column));
}

// "a,b", or an array of texts with the report format json_std.
absl::StatusOr<std::vector<std::string>> TagsOf(const Json& row) {
  std::vector<std::string> tags;
  const auto found = row.find("lv_tags");
  if (found != row.end() && found->is_array()) {
    for (const Json& tag : *found) {
      if (!tag.is_string()) return Malformed("an element of \"lv_tags\" is no text");
      tags.push_back(tag.get<std::string>());
    }
    return tags;
  }
  MOORING_ASSIGN_OR_RETURN(const std::string text, TextOf(row, "lv_tags"));
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    tags.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return tags;
}

bool Has(const std::vector<std::string>& tags, std::string_view tag) {
  return std::find(tags.begin(), tags.end(), tag) != tags.end();
}

// lvs(8), "The lv_attr bits": 10 letters.
absl::StatusOr<std::string> AttributesOfVolume(const Json& row) {
  MOORING_ASSIGN_OR_RETURN(std::string attributes, TextOf(row, "lv_attr"));
  if (attributes.size() < 10) return Malformed("\"lv_attr\" has less than 10 letters");
  return attributes;
}

bool MeansSuspended(char state) { return state == 's' || state == 'S'; }

absl::StatusOr<std::optional<std::uint64_t>> ClearedBytes(const std::vector<std::string>& tags,
                                                          const std::string& name) {
  for (const std::string& tag : tags) {
    if (!tag.starts_with(kLvmClearedTag)) continue;
    const auto bytes = ParseWhole<std::uint64_t>(std::string_view(tag).substr(kLvmClearedTag.size()));
    if (bytes) return bytes;
    return Internal(
        "the logical volume {} has the tag {}, which Mooring did not make: remove it with lvchange --deltag",
        Quote(name), Quote(tag));
  }
  return std::optional<std::uint64_t>();
}

absl::Status SameName(const LvmPool& pool, const std::vector<Json>& rows) {
  std::string uuids;
  for (const Json& row : rows) {
    MOORING_ASSIGN_OR_RETURN(const std::string uuid, TextOf(row, "vg_uuid"));
    uuids += (uuids.empty() ? "" : " and ") + Quote(uuid);
  }
  return FailedPrecondition("{} volume groups have the name {}: {}. Rename all but one: vgrename UUID NEW", rows.size(),
                            Quote(pool.group), uuids);
}

absl::Status ReadGroup(const std::vector<Json>& rows, const LvmPool& pool, LvmState& state) {
  if (rows.empty()) {
    return Unavailable(
        "volume group {} is not there: connect its disks. If this host has a devices file of lvm, add them: lvmdevices "
        "--adddev",
        Quote(pool.group));
  }
  if (rows.size() > 1) return SameName(pool, rows);
  const Json& row = rows.front();
  MOORING_ASSIGN_OR_RETURN(const std::string attributes, TextOf(row, "vg_attr"));
  if (attributes.size() > 2 && attributes[2] == 'x') {
    return Unavailable("volume group {} is exported: import it (vgimport)", Quote(pool.group));
  }
  MOORING_ASSIGN_OR_RETURN(state.report.bytes, NumberOf(row, "vg_size"));
  MOORING_ASSIGN_OR_RETURN(state.report.free_bytes, NumberOf(row, "vg_free"));
  MOORING_ASSIGN_OR_RETURN(state.report.extent_bytes, NumberOf(row, "vg_extent_size"));
  MOORING_ASSIGN_OR_RETURN(state.missing_disks, NumberOf(row, "vg_missing_pv_count"));
  if (state.report.extent_bytes == 0) return Malformed("\"vg_extent_size\" is 0");
  if (state.missing_disks == 0) return absl::OkStatus();
  state.report.problem =
      fmt::format("{} of the disks of volume group {} are missing: connect them, or see vgreduce(8) --removemissing",
                  state.missing_disks, Quote(pool.group));
  return absl::OkStatus();
}

// Empty: nothing is wrong. `state`: the fifth letter of lv_attr. `health`: lv_health_status.
std::string ProblemOfThinPool(const LvmPool& pool, const LvmReport& report, char state, const std::string& health) {
  const std::string name = fmt::format("{}/{}", pool.group, pool.thin_pool);
  const std::string repair =
      fmt::format("stop its users and repair it, lvmthin(7): lvchange -an {}, then lvconvert --repair {}", name, name);
  if (state == 'c' || state == 'C') return fmt::format("thin pool {} needs a check of its metadata: {}", name, repair);
  if (MeansSuspended(state)) {
    return fmt::format("thin pool {} is suspended, so its users wait: lvchange --refresh {}", name, name);
  }
  if (health == "out_of_data" || report.data_percent >= kMostData) {
    return fmt::format("thin pool {} is full ({:.1f} % of its data is in use): lvextend -L +SIZE {}", name,
                       report.data_percent, name);
  }
  if (report.metadata_percent >= kMostMetadata) {
    return fmt::format("the metadata of thin pool {} is full ({:.1f} %): lvextend --poolmetadatasize +SIZE {}", name,
                       report.metadata_percent, name);
  }
  if (health.empty()) return "";
  if (health == "partial") return fmt::format("a disk of thin pool {} is missing: connect it", name);
  return fmt::format("lvm says of thin pool {}: {}; {}", name, Quote(health), repair);
}

absl::Status ReadThinPool(const Json& row, const LvmPool& pool, LvmState& state) {
  MOORING_ASSIGN_OR_RETURN(const std::string attributes, AttributesOfVolume(row));
  if (attributes[0] != 't') {
    return FailedPrecondition("{}/{} is a logical volume, but no thin pool", pool.group, pool.thin_pool);
  }
  LvmReport& report = state.report;
  MOORING_ASSIGN_OR_RETURN(report.bytes, NumberOf(row, "lv_size"));
  MOORING_ASSIGN_OR_RETURN(report.data_percent, PercentOf(row, "data_percent"));
  MOORING_ASSIGN_OR_RETURN(report.metadata_percent, PercentOf(row, "metadata_percent"));
  MOORING_ASSIGN_OR_RETURN(const std::string health, TextOf(row, "lv_health_status"));
  report.free_bytes =
      static_cast<std::uint64_t>(std::floor(static_cast<double>(report.bytes) * (100 - report.data_percent) / 100));
  report.zeroes = attributes[7] == 'z';
  state.is_thin_pool_active = attributes[4] != '-';
  state.is_thin_pool_suspended = MeansSuspended(attributes[4]);
  if (report.problem.empty()) report.problem = ProblemOfThinPool(pool, report, attributes[4], health);
  return absl::OkStatus();
}

// In a thin pool, what was cleared does not count: ParseLvmState.
absl::StatusOr<LvmVolumeState> ReadVolume(const Json& row, const std::string& name,
                                          const std::vector<std::string>& tags, bool is_thin) {
  LvmVolumeState state;
  state.volume.name = name;
  MOORING_ASSIGN_OR_RETURN(const std::string attributes, AttributesOfVolume(row));
  MOORING_ASSIGN_OR_RETURN(state.volume.bytes, NumberOf(row, "lv_size"));
  if (!is_thin) {
    MOORING_ASSIGN_OR_RETURN(state.cleared_bytes, ClearedBytes(tags, name));
  }
  state.volume.is_new = Has(tags, kLvmNewTag);
  state.volume.is_raw = Has(tags, kLvmRawTag);
  state.volume.is_cleared = state.cleared_bytes && *state.cleared_bytes >= state.volume.bytes;
  state.has_growth_note = Has(tags, kLvmGrowingTag);
  if (state.cleared_bytes && !state.volume.is_cleared) {
    (state.has_growth_note ? state.volume.is_growing : state.volume.is_enlarged) = true;
  }
  state.has_dependents = attributes[0] == 'o' || attributes[0] == 'O';
  state.volume.is_active = attributes[4] == 'a';
  state.is_suspended = MeansSuspended(attributes[4]);
  state.volume.is_open = attributes[5] == 'o';
  return state;
}

absl::Status ReadVolumes(const std::vector<Json>& rows, const LvmPool& pool, LvmState& state) {
  bool has_pool = !pool.is_thin();
  for (const Json& row : rows) {
    MOORING_ASSIGN_OR_RETURN(const std::string name, TextOf(row, "lv_name"));
    MOORING_ASSIGN_OR_RETURN(const std::string parent, TextOf(row, "pool_lv"));
    MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> tags, TagsOf(row));
    if (pool.is_thin() && name == pool.thin_pool) {
      has_pool = true;
      MOORING_RETURN_IF_ERROR(ReadThinPool(row, pool, state));
    }
    if (!Has(tags, kLvmTag) || !IsLvmVolumeName(name) || parent != pool.thin_pool) {
      state.other_names.push_back(name);
      continue;
    }
    MOORING_ASSIGN_OR_RETURN(LvmVolumeState volume, ReadVolume(row, name, tags, pool.is_thin()));
    state.volumes.push_back(std::move(volume));
  }
  if (has_pool) return absl::OkStatus();
  return Unavailable("thin pool {}/{} is not there: make it (lvcreate --type thin-pool -L SIZE -n {} {})", pool.group,
                     pool.thin_pool, pool.thin_pool, pool.group);
}

// Holds for all names that ParseLvmPool allows. Unlike a bare name, it selects all groups of the name.
std::string SelectGroup(const LvmPool& pool) { return fmt::format("vg_name=\"{}\"", pool.group); }

}  // namespace

LvmCommand GroupReportCommand(const LvmPool& pool) {
  return {"vgs", "-o", "vg_name,vg_uuid,vg_attr,vg_size,vg_free,vg_extent_size,vg_missing_pv_count", "-S",
          SelectGroup(pool)};
}

LvmCommand VolumeReportCommand(const LvmPool& pool) {
  return {"lvs", "-o", "lv_name,lv_tags,lv_size,lv_attr,pool_lv,data_percent,metadata_percent,lv_health_status",
          pool.group};
}

absl::StatusOr<LvmState> ParseLvmState(const std::string& groups, const std::string& volumes, const LvmPool& pool) {
  LvmState state;
  MOORING_ASSIGN_OR_RETURN(const std::vector<Json> group_rows, RowsOf(groups, "vg"));
  MOORING_RETURN_IF_ERROR(ReadGroup(group_rows, pool, state));
  MOORING_ASSIGN_OR_RETURN(const std::vector<Json> volume_rows, RowsOf(volumes, "lv"));
  MOORING_RETURN_IF_ERROR(ReadVolumes(volume_rows, pool, state));
  for (LvmVolumeState& each : state.volumes) {
    if (pool.is_thin() && state.report.zeroes) each.volume.is_cleared = true;
    state.report.volumes.push_back(each.volume);
  }
  return state;
}

absl::Status CheckGroupReport(std::string_view doing, const LvmReportText& groups, const LvmPool& pool) {
  const absl::StatusOr<std::vector<Json>> rows = RowsOf(groups.json, "vg");
  const bool has_row = rows.ok() && !rows->empty();
  if (groups.result.exit_code != 0 && !has_row) return LvmFailure(doing, groups.result);
  MOORING_RETURN_IF_ERROR(rows.status());
  LvmState state;
  return ReadGroup(*rows, pool, state);
}

absl::StatusOr<LvmState> ReadLvmState(const Lvm& lvm, const LvmPool& pool) {
  const std::string doing = fmt::format("look at volume group {}", Quote(pool.group));
  MOORING_ASSIGN_OR_RETURN(const LvmReportText groups, lvm.Report(doing, GroupReportCommand(pool)));
  MOORING_RETURN_IF_ERROR(CheckGroupReport(doing, groups, pool));
  MOORING_ASSIGN_OR_RETURN(const LvmReportText volumes, lvm.Report(doing, VolumeReportCommand(pool)));
  if (volumes.result.exit_code != 0) return LvmFailure(doing, volumes.result);
  return ParseLvmState(groups.json, volumes.json, pool);
}

std::vector<std::string> SuspendedIn(const LvmState& state, const LvmPool& pool) {
  std::vector<std::string> suspended;
  if (state.is_thin_pool_suspended) suspended.push_back(pool.group + "/" + pool.thin_pool);
  for (const LvmVolumeState& each : state.volumes) {
    if (each.is_suspended) suspended.push_back(pool.group + "/" + each.volume.name);
  }
  return suspended;
}

const LvmVolumeState* FindFinished(const LvmState& state, std::string_view name) {
  const auto found = std::find_if(state.volumes.begin(), state.volumes.end(),
                                  [&](const LvmVolumeState& each) { return each.volume.name == name; });
  return found == state.volumes.end() || found->volume.is_new ? nullptr : &*found;
}

}  // namespace mooring
