// Texts from people, orchestrators and the kernel, through the parsers. The first byte of an input chooses the parser.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/endpoint.h"
#include "base/file/path.h"
#include "base/status.h"
#include "base/text/clean_text.h"
#include "base/text/quote.h"
#include "base/text/size.h"
#include "base/text/terminal_text.h"
#include "http/request.h"
#include "metrics/listen_address.h"
#include "mounter/mount_options.h"
#include "mounter/mount_words.h"
#include "mounter/propagation.h"
#include "mounter/table/mount_info_file.h"
#include "plugin/config/pool_config.h"
#include "plugin/model/volume_tuning.h"
#include "tests/fuzz/fuzz.h"

namespace mooring::fuzz {
namespace {

void CheckError(const absl::Status& status) {
  Require(!Message(status).empty(), "an error has a message");
  Require(IsUtf8(Message(status)) && !HasControlByte(Message(status)), "an error can be logged", Message(status));
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    parts.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

void TrySize(std::string_view text) {
  const auto bytes = ParseSize(text);
  if (!bytes.ok()) return CheckError(bytes.status());
  Require(*bytes >= 0, "a size is not negative");
  const std::string exact = SizeText(static_cast<std::uint64_t>(*bytes));
  if (exact.ends_with("iB")) {
    const auto again = ParseSize(exact.substr(0, exact.find(' ')) + exact.substr(exact.find(' ') + 1));
    Require(again.ok() && *again == *bytes, "a size is parsed to the same again", exact);
  }
  Require(!FormatSize(*bytes).empty(), "a size can be written");
}

void TryMountFlags(std::string_view text) {
  for (const char* fs_type : {"ext4", "xfs", "btrfs"}) {
    const auto options = ParseMountFlags(fs_type, Split(text, '\n'));
    if (!options.ok()) {
      CheckError(options.status());
      continue;
    }
    for (const FilesystemOption& option : options->options) {
      Require(IsAllowed(fs_type, option), "the mount helper allows an option that was accepted", option.key);
    }
    const std::string written = ToString(options->flags) + "," + ToString(options->options);
    const auto again = ParseMountFlags(fs_type, {written});
    Require(again.ok() && *again == *options, "mount flags are parsed to the same again", written);
  }
}

void TryMountWords(std::string_view text) {
  std::string joined;
  for (const std::string& word : SplitMountWords(text)) {
    joined += "," + word;
    IsForOthers(word);
  }
  Require(joined.substr(1) == text, "words are split at commas alone", joined);
}

void TryMountInfo(std::string_view text) {
  const auto mounts = ParseMountInfo(std::string(text));
  if (!mounts.ok()) return;
  for (const TableMount& mount : *mounts) {
    PropagationText(mount);
    FlagsOfMountInfo(ToString(mount.flags));
  }
}

void TryPools(std::string_view text) {
  const auto pools = ParsePools(Split(text, '\n'));
  if (!pools.ok()) return CheckError(pools.status());
  Require(!pools->empty(), "there is a default pool");
  for (const PoolConfig& pool : *pools) {
    if (pool.path.empty()) continue;
    const auto path = NormalisePath("path", pool.path);
    Require(path.ok() && *path == pool.path, "the path of a pool is normal", pool.path);
  }
}

void TryPath(std::string_view text) {
  const auto path = NormalisePath("path", text);
  if (!path.ok()) return CheckError(path.status());
  const auto again = NormalisePath("path", *path);
  Require(again.ok() && *again == *path, "a normal path stays as it is", *path);
  Require((*path + "/").find("/../") == std::string::npos && path->front() == '/', "a path leads nowhere else", *path);
  Require(IsBelow(*path, ParentOf(*path)), "a path lies below its parent", *path);
}

void TryAddresses(std::string_view text) {
  const auto address = metrics::ParseListenAddress(text);
  if (address.ok()) {
    const auto again = metrics::ParseListenAddress(metrics::ToString(*address));
    Require(again.ok() && *again == *address, "an address is parsed to the same again", metrics::ToString(*address));
  } else {
    CheckError(address.status());
  }
  const auto propagation = ParsePropagation(text);
  if (!propagation.ok()) return CheckError(propagation.status());
  const auto again = ParsePropagation(ToString(*propagation));
  Require(again.ok() && *again == *propagation, "a propagation is parsed to the same again");
}

void TryQuotes(std::string_view text) {
  for (const std::size_t most : {std::size_t{256}, std::size_t{5}}) {
    const std::string quoted = Quote(text, most);
    Require(IsUtf8(quoted) && !HasControlByte(quoted), "a quoted text can be logged", quoted);
    const std::string clean = CleanText(text, most);
    Require(IsUtf8(clean) && clean.size() <= most + 3, "a clean text is UTF-8 and short", clean);
  }
  const std::string visible = Visible(text);
  Require(IsUtf8(visible) && !HasControlByte(visible), "a visible text moves no cursor", visible);
  Require(!HasControlByte(ShellQuote(text)), "a word of a shell moves no cursor", ShellQuote(text));
  const nlohmann::json json = nlohmann::json::parse(JsonQuote(text), nullptr, false);
  Require(json.is_string(), "a JSON literal is valid", JsonQuote(text));
  Require(!IsUtf8(text) || json.get<std::string>() == text, "a JSON literal is the same text", JsonQuote(text));
}

void TryTuning(std::string_view text) {
  const VolumeTuning tuning = TuningIn(std::string(text));
  Require(TuningIn(ToText(tuning)) == tuning, "the settings of a volume are read as they were written", ToText(tuning));
}

void TryHttp(std::string_view text) {
  constexpr http::RequestLimits kLimits = {.head = 1024, .body = 1024};
  const auto request = http::ReadRequest(text, kLimits);
  for (std::size_t size = 0; size < text.size(); ++size) {  // as it arrives
    const auto part = http::ReadRequest(text.substr(0, size), kLimits);
    if (!part) continue;
    Require(request.has_value() && part->index() == request->index(), "more bytes change no answer");
    const auto* early = std::get_if<http::Request>(&*part);
    const auto* late = std::get_if<http::Request>(&*request);
    Require(
        early == nullptr || (early->method == late->method && early->path == late->path && early->body == late->body),
        "more bytes change no request");
    break;
  }
}

constexpr std::array kParsers = {TrySize, TryMountFlags, TryMountWords, TryMountInfo, TryPools,
                                 TryPath, TryAddresses,  TryQuotes,     TryTuning,    TryHttp};

}  // namespace

void TryOne(const std::uint8_t* data, std::size_t size) {
  if (size > 0) kParsers[data[0] % kParsers.size()](Text(data + 1, size - 1));
}

}  // namespace mooring::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  mooring::fuzz::TryOne(data, size);
  return 0;
}
