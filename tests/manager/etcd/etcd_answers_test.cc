#include <etcd.pb.h>

#include "manager/etcd/etcd_client.h"
#include "manager/etcd/etcd_watch.h"
#include "tests/manager/prelude.h"

namespace mooring::manager {
namespace {

etcdserverpb::RangeRequest Asked(const std::string& key, const std::string& end = "") {
  etcdserverpb::RangeRequest request;
  request.set_key(key);
  request.set_range_end(end);
  return request;
}

etcdserverpb::RangeResponse Page(const std::vector<std::string>& keys, bool more = false) {
  etcdserverpb::RangeResponse page;
  for (const std::string& key : keys) page.add_kvs()->set_key(key);
  page.set_more(more);
  return page;
}

TEST(EtcdAnswers, PagesHaveTheKeysThatWereAskedFor) {
  EXPECT_OK(CheckPage(Asked("/m/a"), Page({"/m/a"})));
  EXPECT_OK(CheckPage(Asked("/m/a"), Page({})));
  EXPECT_OK(CheckPage(Asked("/m/", EndOfPrefix("/m/")), Page({"/m/a", "/m/b"}, true)));
  EXPECT_OK(CheckPage(Asked("", EndOfPrefix("")), Page({"", "x"})));
  EXPECT_THAT(CheckPage(Asked("/m/a"), Page({"/m/b"})), FailsWith(Code::kInternal, "'/m/b' was not asked for"));
  EXPECT_THAT(CheckPage(Asked("/m/", EndOfPrefix("/m/")), Page({"/"})), FailsWith(Code::kInternal, "'/'"));
  EXPECT_THAT(CheckPage(Asked("/m/", EndOfPrefix("/m/")), Page({"/n/a"})), FailsWith(Code::kInternal, "'/n/a'"));
}

TEST(EtcdAnswers, PagesThatNeverEndAreRefused) {
  const auto asked = Asked("/m/", EndOfPrefix("/m/"));
  EXPECT_THAT(CheckPage(asked, Page({}, true)), FailsWith(Code::kInternal, "without keys"));
  EXPECT_THAT(CheckPage(asked, Page({"/m/b", "/m/a"})), FailsWith(Code::kInternal, "not in order"));
  EXPECT_THAT(CheckPage(asked, Page({"/m/a", "/m/a"})), FailsWith(Code::kInternal, "not in order"));
}

TEST(EtcdAnswers, StepThatIsMissingHasFoundNothing) {
  etcdserverpb::TxnResponse response;
  EXPECT_EQ(FoundBy(response, 0), nullptr);
  *response.add_responses()->mutable_response_range() = Page({});
  *response.add_responses()->mutable_response_range() = Page({"/m/a"});
  EXPECT_EQ(FoundBy(response, 0), nullptr);
  ASSERT_NE(FoundBy(response, 1), nullptr);
  EXPECT_EQ(FoundBy(response, 1)->key(), "/m/a");
}

}  // namespace
}  // namespace mooring::manager
