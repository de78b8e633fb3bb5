#include "cli/doctor/draw.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/text/terminal_text.h"
#include "cli/mounts/describe.h"
#include "cli/output/output.h"

namespace mooring::cli::doctor_area {
namespace {

struct Strokes {
  const char *member, *last_member, *slave, *last_slave, *past, *past_last;
};

constexpr Strokes kUnicode{"├─ ", "└─ ", "├▶ ", "└▶ ", "│  ", "   "};
constexpr Strokes kAscii{"|- ", "`- ", "|> ", "`> ", "|  ", "   "};

const Strokes& StrokesOf(Lines lines) {
  switch (lines) {
    case Lines::kUnicode:
      return kUnicode;
    case Lines::kAscii:
      return kAscii;
  }
  return kAscii;
}

// The limit for one group: the "/" of a host may be in hundreds of namespaces.
constexpr std::size_t kMostMounts = 24;

class Drawing {
 public:
  Drawing(const NamespaceView& here, Lines lines) : here_(here), strokes_(StrokesOf(lines)) {}

  void Draw(const PropagationGroup& group, const std::string& indent) {
    const bool nothing_else = group.below.empty();
    DrawMounts(group.peers, indent, strokes_.member, group.slaves.empty() && nothing_else ? strokes_.last_member : "",
               "");
    DrawMounts(group.slaves, indent, strokes_.slave, nothing_else ? strokes_.last_slave : "", ", receives");
    for (std::size_t i = 0; i < group.below.size(); ++i) {
      const bool last = i + 1 == group.below.size();
      const PropagationGroup& below = group.below[i];
      Line(indent, last ? strokes_.last_slave : strokes_.slave, fmt::format("peer group {}, receives", below.id));
      Draw(below, indent + (last ? strokes_.past_last : strokes_.past));
    }
  }

  void Line(const std::string& indent, std::string_view stroke, std::string_view text) {
    text_.append(indent).append(stroke).append(Visible(text)).append("\n");
  }

  const std::string& text() const { return text_; }

 private:
  // The last mount gets `last_stroke`, unless that is empty because more lines follow.
  void DrawMounts(const std::vector<Sight>& mounts, const std::string& indent, const char* stroke,
                  std::string_view last_stroke, const char* suffix) {
    const std::size_t shown = std::min(mounts.size(), kMostMounts);
    const std::size_t left = mounts.size() - shown;
    for (std::size_t i = 0; i < shown; ++i) {
      const bool last = i + 1 == shown && left == 0 && !last_stroke.empty();
      Line(indent, last ? last_stroke : stroke, MountText(mounts[i]) + suffix);
    }
    if (left != 0) Line(indent, last_stroke.empty() ? stroke : last_stroke, fmt::format("{} more", left));
  }

  std::string MountText(const Sight& sight) const {
    const bool here = sight.view->id == here_.id;
    return fmt::format("{} in {}", sight.mount->target, here ? "this namespace" : ProcessText(*sight.view));
  }

  const NamespaceView& here_;
  const Strokes& strokes_;
  std::string text_;
};

std::string Title(const PropagationGroup& group) {
  if (group.id == 0) return "private: propagates nothing, receives nothing";
  return fmt::format("peer group {}{}", group.id, group.peers.empty() ? " (its mounts are not visible from here)" : "");
}

std::string SightsJson(const std::vector<Sight>& sights) {
  std::vector<std::string> all;
  for (const Sight& sight : sights) {
    JsonObject json;
    json.AddNumber("namespace", sight.view->id).AddNumber("pid", static_cast<std::uint64_t>(sight.view->pid));
    all.push_back(json.Add("command", sight.view->command).Add("target", sight.mount->target).ToString());
  }
  return JsonArray(all);
}

}  // namespace

Lines LinesOfLocale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view text(value);
    const bool utf8 = text.find("UTF-8") != std::string_view::npos || text.find("utf8") != std::string_view::npos;
    return utf8 ? Lines::kUnicode : Lines::kAscii;
  }
  return Lines::kAscii;
}

std::string DrawTree(const PropagationGroup& group, const NamespaceView& here, Lines lines) {
  Drawing drawing(here, lines);
  drawing.Line("", "", Title(group));
  drawing.Draw(group, "");
  return drawing.text();
}

std::string TreeJson(const PropagationGroup& group) {
  std::vector<std::string> below;
  for (const PropagationGroup& each : group.below) below.push_back(TreeJson(each));
  JsonObject json;
  json.AddNumber("peer_group", group.id).AddRaw("peers", SightsJson(group.peers));
  return json.AddRaw("slaves", SightsJson(group.slaves)).AddRaw("below", JsonArray(below)).ToString();
}

}  // namespace mooring::cli::doctor_area
