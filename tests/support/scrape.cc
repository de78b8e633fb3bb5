#include "tests/support/scrape.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <vector>

#include "base/file/unique_fd.h"

namespace mooring::testing {
namespace {

UniqueFd Connected(const sockaddr* address, socklen_t size) {
  UniqueFd fd(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval patience = {20, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (::connect(fd.get(), address, size) != 0) fd.reset();
  return fd;
}

UniqueFd ConnectTo(const std::string& address) {
  if (address.starts_with("unix:")) {
    sockaddr_un un = {};
    un.sun_family = AF_UNIX;
    address.substr(5).copy(un.sun_path, sizeof(un.sun_path) - 1);
    return Connected(reinterpret_cast<const sockaddr*>(&un), sizeof un);
  }
  const std::size_t colon = address.rfind(':');
  const auto port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1))));
  if (address.starts_with("[")) {
    sockaddr_in6 in = {};
    in.sin6_family = AF_INET6;
    in.sin6_port = port;
    ::inet_pton(AF_INET6, address.substr(1, colon - 2).c_str(), &in.sin6_addr);
    return Connected(reinterpret_cast<const sockaddr*>(&in), sizeof in);
  }
  sockaddr_in in = {};
  in.sin_family = AF_INET;
  in.sin_port = port;
  ::inet_pton(AF_INET, address.substr(0, colon).c_str(), &in.sin_addr);
  return Connected(reinterpret_cast<const sockaddr*>(&in), sizeof in);
}

std::string Read(const std::string& path) {
  std::ifstream file(std::string(MOORING_SOURCE_DIR) + "/" + path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::smatch> Matches(const std::string& text, const std::regex& regex) {
  return {std::sregex_iterator(text.begin(), text.end(), regex), std::sregex_iterator()};
}

// The family that a sample belongs to: a histogram has three names of samples.
std::string FamilyOf(const std::string& name, const MetricFamilies& families) {
  if (families.contains(name)) return name;
  for (const std::string suffix : {"_bucket", "_sum", "_count"}) {
    if (!name.ends_with(suffix)) continue;
    const std::string base = name.substr(0, name.size() - suffix.size());
    const auto found = families.find(base);
    if (found != families.end() && found->second.type == "histogram") return base;
  }
  return "";
}

void CheckConventions(const std::string& name, const std::string& type) {
  EXPECT_THAT(name, ::testing::MatchesRegex("(mooring_(plugin|manager)|process)_[a-z_]+"));
  EXPECT_EQ(name.ends_with("_total"), type == "counter") << name;
  EXPECT_THAT(type, ::testing::AnyOf("counter", "gauge", "histogram")) << name;
}

void AddSample(Scrape& scrape, const std::smatch& line) {
  const std::string name = line[1], labels = line[3];
  const std::string family = FamilyOf(name, scrape.families);
  EXPECT_NE(family, "") << name << " has no TYPE";
  std::map<std::string, std::string> sorted;
  static const std::regex kLabel(R"re(([a-z_]+)="((?:[^"\\]|\\.)*)")re");
  for (const std::smatch& label : Matches(labels, kLabel)) {
    EXPECT_TRUE(sorted.emplace(label[1], label[2]).second) << name << " has a label twice";
    if (label[1] != "le") scrape.families[family].labels.insert(label[1]);
  }
  std::string series = name;
  for (const auto& [label, value] : sorted) series += (series == name ? "{" : ",") + label + "=\"" + value + "\"";
  if (!sorted.empty()) series += "}";
  EXPECT_TRUE(scrape.values.emplace(series, std::strtod(line.str(4).c_str(), nullptr)).second) << series << " twice";
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const MetricFamily& family) {
  out << family.type << " {";
  for (const std::string& label : family.labels) out << " " << label;
  return out << " }";
}

std::string Exchange(const std::string& address, const std::string& request) {
  const UniqueFd fd = ConnectTo(address);
  if (!fd.ok() || ::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) return "";
  std::string response;
  std::array<char, 4096> buffer;
  for (ssize_t got; (got = ::recv(fd.get(), buffer.data(), buffer.size(), 0)) > 0;) {
    response.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return response;
}

std::string HttpGet(const std::string& address, const std::string& path) {
  return Exchange(address, "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain\r\n\r\n");
}

double Scrape::operator[](const std::string& series) const {
  const auto found = values.find(series);
  return found == values.end() ? -1 : found->second;
}

Scrape ParseScrape(const std::string& page) {
  static const std::regex kHelp("# HELP ([a-z_]+) (.+)"), kType("# TYPE ([a-z_]+) ([a-z]+)");
  static const std::regex kSample(R"re(([a-z_]+)(\{(.*)\})? ([0-9.e+-]+|\+Inf|NaN))re");
  Scrape scrape;
  std::string helped;
  std::istringstream lines(page);
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_match(line, match, kHelp)) {
      helped = match[1];
    } else if (std::regex_match(line, match, kType)) {
      EXPECT_EQ(match[1], helped) << "a TYPE without HELP";
      CheckConventions(match[1], match[2]);
      EXPECT_TRUE(scrape.families.emplace(match[1], MetricFamily{match[2], {}}).second) << match[1] << " twice";
    } else if (std::regex_match(line, match, kSample)) {
      AddSample(scrape, match);
    } else {
      ADD_FAILURE() << "no line of the format: " << line;
    }
  }
  return scrape;
}

Scrape ScrapeOf(const std::string& address) {
  const std::string response = HttpGet(address, "/metrics");
  const std::size_t end = response.find("\r\n\r\n");
  EXPECT_TRUE(response.starts_with("HTTP/1.1 200 OK\r\n") && end != std::string::npos) << response.substr(0, 500);
  return end == std::string::npos ? Scrape() : ParseScrape(response.substr(end + 4));
}

// By the rule on the page.
std::string TypeByName(const std::string& name) {
  if (name.ends_with("_total")) return "counter";
  return name.ends_with("_duration_seconds") ? "histogram" : "gauge";
}

MetricFamilies FamiliesOfThePage(const std::set<std::string>& prefixes) {
  static const std::regex kRow(R"re((?:^|\n)\| `([a-z_]+)` \|([^|]*)\|)re");
  static const std::regex kLabel("`([a-z_]+)`");
  MetricFamilies families;
  const std::string page = Read("docs/operations.md");
  for (const std::smatch& row : Matches(page, kRow)) {
    const std::string name = row[1], labels = row[2];
    for (const std::string& prefix : prefixes) {
      if (!name.starts_with(prefix)) continue;
      MetricFamily family{TypeByName(name), {}};
      for (const std::smatch& label : Matches(labels, kLabel)) family.labels.insert(label[1]);
      EXPECT_TRUE(families.emplace(name, family).second) << name << " stands there twice";
    }
  }
  return families;
}

std::set<std::string> NamesInUse(const std::string& prefix) {
  std::set<std::string> names;
  for (const char* file : {"packaging/grafana/mooring.json", "packaging/prometheus/mooring.rules.yaml"}) {
    const std::string text = Read(file);
    for (const std::smatch& name : Matches(text, std::regex("\\b" + prefix + "[a-z_]+"))) names.insert(name[0]);
  }
  return names;
}

}  // namespace mooring::testing
