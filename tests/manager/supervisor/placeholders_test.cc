#include "manager/launch/launcher.h"
#include "tests/manager/prelude.h"

namespace mooring::manager {
namespace {

const PlaceholderValues kValues = {.socket = "/run/p/csi.sock", .node = "web1"};

std::string Filled(const std::string& word) {
  PluginRecord::Run run;
  run.command = {word};
  return FillPlaceholders(run, kValues).command.front();
}

TEST(Placeholders, NameTheSocketTheEndpointAndTheNode) {
  PluginRecord::Run run;
  run.command = {"driver", "--endpoint={endpoint}", "--socket", "{socket}", "--nodeid={node}"};
  run.environment = {{"ADDRESS", "{socket}"}, {"BOTH", "{node}@{endpoint}"}};
  const PluginRecord::Run filled = FillPlaceholders(run, kValues);
  EXPECT_THAT(filled.command, ElementsAre("driver", "--endpoint=unix:///run/p/csi.sock", "--socket", "/run/p/csi.sock",
                                          "--nodeid=web1"));
  EXPECT_THAT(filled.environment,
              ElementsAre(Pair("ADDRESS", "/run/p/csi.sock"), Pair("BOTH", "web1@unix:///run/p/csi.sock")));
}

TEST(Placeholders, OtherBracesStay) {
  for (const char* word : {"{}", "{other}", "{Endpoint}", "{endpoint", "endpoint}", R"({"a":{"b":[1,{}]}})", "{{}}"}) {
    EXPECT_EQ(Filled(word), word);
  }
}

TEST(Placeholders, AreWrittenLiterallyInTwoPairsOfBraces) {
  EXPECT_EQ(Filled("{{endpoint}} {{socket}} {{node}}"), "{endpoint} {socket} {node}");
  EXPECT_EQ(Filled(R"({"path":"{socket}"})"), R"({"path":"/run/p/csi.sock"})");
}

TEST(Placeholders, InValuesAreNotFilledAgain) {
  PluginRecord::Run run;
  run.command = {"{node}"};
  EXPECT_EQ(FillPlaceholders(run, {.socket = "/s", .node = "{socket}"}).command.front(), "{socket}");
}

}  // namespace
}  // namespace mooring::manager
