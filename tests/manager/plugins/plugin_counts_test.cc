#include "manager/plugins/plugin_counts.h"

#include <gmock/gmock.h>

namespace mooring::manager {
namespace {

constexpr PluginType kNode = PluginType::kNode;
constexpr PluginType kController = PluginType::kController;

TEST(PluginCountsTest, InstanceThatWasNeverHealthyDoesNotCount) {
  PluginCounts counts;
  counts.Add(kNode, "host-1", "a", false);
  EXPECT_EQ(counts.Of(kNode), (RoleCount{0, 0}));
  EXPECT_TRUE(counts.IsEmpty());
}

TEST(PluginCountsTest, AddReplacesThePreviousInstance) {
  PluginCounts counts;
  counts.Add(kNode, "host-1", "a", true);
  counts.Add(kNode, "host-1", "a", true);
  EXPECT_EQ(counts.Of(kNode), (RoleCount{1, 1}));
  counts.Add(kNode, "host-1", "a", false);
  EXPECT_EQ(counts.Of(kNode), (RoleCount{0, 1}));
  counts.Add(kNode, "host-1", "a", false);
  EXPECT_EQ(counts.Of(kNode), (RoleCount{0, 1}));
  counts.Add(kNode, "host-1", "b", true);
  counts.Add(kNode, "host-2", "c", true);
  EXPECT_EQ(counts.Of(kNode), (RoleCount{2, 2}));
}

TEST(PluginCountsTest, DeletesOnlyTheNamedInstance) {
  PluginCounts counts;
  counts.Add(kNode, "host-1", "old", true);
  counts.Add(kNode, "host-1", "new", true);
  counts.DeleteInstance(kNode, "host-1", "old");
  EXPECT_EQ(counts.Of(kNode), (RoleCount{1, 1}));
  counts.DeleteInstance(kController, "host-1", "new");
  EXPECT_EQ(counts.Of(kNode), (RoleCount{1, 1}));
  counts.DeleteInstance(kNode, "host-1", "new");
  EXPECT_EQ(counts.Of(kNode), (RoleCount{0, 0}));
}

TEST(PluginCountsTest, CountsEachControllerOfANode) {
  PluginCounts counts;
  counts.Add(kController, "host-1", "a", true);
  counts.Add(kController, "host-1", "b", true);
  EXPECT_EQ(counts.Of(kController), (RoleCount{2, 2}));
  counts.DeleteInstance(kController, "host-1", "a");
  EXPECT_EQ(counts.Of(kController), (RoleCount{1, 1}));
}

TEST(PluginCountsTest, IsEmptyWithoutInstancesAndExpectations) {
  PluginCounts counts;
  EXPECT_TRUE(counts.IsEmpty());
  counts.Expect(kNode, 1);
  EXPECT_FALSE(counts.IsEmpty());
  EXPECT_EQ(counts.Of(kNode), (RoleCount{0, 1}));
}

}  // namespace
}  // namespace mooring::manager
