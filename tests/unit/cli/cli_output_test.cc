// The output for people and scripts: tables, escapes, errors.
#include <gtest/gtest.h>

#include <string>

#include "base/status.h"
#include "base/text/terminal_text.h"
#include "cli/client/client.h"
#include "cli/output/report.h"
#include "cli/output/table.h"
#include "csi.pb.h"

namespace mooring::cli {
namespace {

TEST(VisibleTest, LeavesTextAlone) {
  EXPECT_EQ(Visible("pvc-1 d'\\accord, Überraschung 数"), "pvc-1 d'\\accord, Überraschung 数");
}

TEST(VisibleTest, EscapesControlCharacters) {
  EXPECT_EQ(Visible("a\x1b[2Jb"), "a\\x1b[2Jb");
  EXPECT_EQ(Visible("a\nb\tc\rd\x7f\a"), "a\\nb\\tc\\rd\\x7f\\x07");
  EXPECT_EQ(Visible(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(Visible("\xC2\x9B"
                    "2J"),
            "\\u009b2J");                               // CSI as one C1 character
  EXPECT_EQ(Visible("\xE2\x80\xAEtxt"), "\\u202etxt");  // right-to-left override
}

TEST(VisibleTest, EscapesInvalidUtf8) {
  EXPECT_EQ(Visible("\x9B"
                    "2J"),
            "\\x9b2J");
  EXPECT_EQ(Visible("\xC3"), "\\xc3");
  EXPECT_EQ(Visible("\xC0\xAF"), "\\xc0\\xaf");                    // overlong
  EXPECT_EQ(Visible("\xED\xA0\x80"), "\\xed\\xa0\\x80");           // a surrogate
  EXPECT_EQ(Visible("\xF4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // above U+10FFFF
}

TEST(TableTest, AlignsColumnsAndEndsLinesWithoutBlanks) {
  Table table({"ID", "CAPACITY", "NODES"});
  table.Add({"vol-1", "1.0 GiB (1073741824)", "a, b"});
  table.Add({"v", "512 B", ""});
  EXPECT_EQ(table.ToString(),
            "ID     CAPACITY              NODES\n"
            "vol-1  1.0 GiB (1073741824)  a, b\n"
            "v      512 B                 -\n");
}

TEST(TableTest, CountsCharactersNotBytes) {
  Table table({"ID", "N"});
  table.Add({"Übung", "1"});
  table.Add({"abcde", "2"});
  EXPECT_EQ(table.ToString(),
            "ID     N\n"
            "Übung  1\n"
            "abcde  2\n");
}

TEST(TableTest, EachRowIsOneLine) {
  Table table({"ID", "N"});
  table.Add({"a\nb\x1b[1m", "1"});
  EXPECT_EQ(table.ToString(),
            "ID           N\n"
            "a\\nb\\x1b[1m  1\n");
}

TEST(TableTest, EmptyTableIsItsHeadings) { EXPECT_EQ(Table({"ID", "N"}).ToString(), "ID  N\n"); }

TEST(DetailsTest, AlignsValues) {
  Details details;
  details.Add("id", "vol-1");
  details.Add("capacity", "");
  details.AddIf("context", "");
  details.AddIf("source", "snapshot s\n1");
  EXPECT_EQ(details.ToString(),
            "id        vol-1\n"
            "capacity  -\n"
            "source    snapshot s\\n1\n");
}

absl::Status Refused(const std::string& message) { return OfCall(FailedPrecondition(message), "NodePublishVolume"); }

TEST(FailureTest, ErrorOfACallNamesItsCode) {
  EXPECT_EQ(ToLine(Refused("in use")), "NodePublishVolume: FAILED_PRECONDITION (9): in use");
  EXPECT_EQ(ToJson(Refused("in \"use\"\n")),
            R"({"rpc":"NodePublishVolume","code":9,"code_name":"FAILED_PRECONDITION","message":"in \"use\"\u000a"})");
  EXPECT_EQ(ExitStatus(Refused("in use")), kExitFailed);
}

TEST(FailureTest, EscapesControlCharacters) {
  EXPECT_EQ(ToLine(Refused("\x1b]0;title\a\nmooring: ok")),
            "NodePublishVolume: FAILED_PRECONDITION (9): \\x1b]0;title\\x07; mooring: ok");
}

TEST(FailureTest, OnlyWrongArgumentsAreUsageErrors) {
  EXPECT_EQ(ExitStatus(InvalidArgument("bad size")), kExitUsage);
  EXPECT_EQ(ToLine(InvalidArgument("bad size")), "bad size");
  EXPECT_EQ(ExitStatus(OfCall(InvalidArgument("volume_id is missing"), "DeleteVolume")), kExitFailed);
  EXPECT_EQ(ExitStatus(Internal("no JSON")), kExitFailed);
  EXPECT_EQ(ExitStatus(absl::OkStatus()), kExitOk);
}

TEST(RedactTest, RedactsSecretsAndMountFlags) {
  csi::v1::CreateVolumeRequest request;
  request.set_name("v");
  (*request.mutable_secrets())["password"] = "hunter22";
  (*request.mutable_parameters())["password"] = "shown";
  auto& mount = *request.add_volume_capabilities()->mutable_mount();
  mount.add_mount_flags("noatime");
  mount.add_mount_flags("key=hunter22");

  const auto redacted = Redacted(request, ClassifyCsi);
  const auto& shown = dynamic_cast<const csi::v1::CreateVolumeRequest&>(*redacted);
  EXPECT_EQ(shown.secrets().at("password"), "***");
  EXPECT_EQ(shown.parameters().at("password"), "shown");
  EXPECT_EQ(shown.volume_capabilities(0).mount().mount_flags(0), "noatime");
  EXPECT_EQ(shown.volume_capabilities(0).mount().mount_flags(1), "key=***");
  EXPECT_EQ(redacted->ShortDebugString().find("hunter22"), std::string::npos);
  EXPECT_EQ(request.secrets().at("password"), "hunter22") << "the request itself must stay";
}

}  // namespace
}  // namespace mooring::cli
