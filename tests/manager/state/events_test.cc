#include "manager/records/events.h"

#include "tests/manager/prelude.h"

namespace mooring::manager {
namespace {

std::chrono::steady_clock::time_point Now() { return std::chrono::steady_clock::now(); }

Event Saying(const std::string& text) {
  Event event;
  event.kind = "health";
  event.text = text;
  return event;
}

TEST(EventsTest, NumbersEventsFromOne) {
  Events events;
  EXPECT_EQ(events.last(), 0U);
  for (const char* text : {"first", "second", "third"}) events.Add(Saying(text));
  EXPECT_EQ(events.last(), 3U);
  const auto from_second = events.Next(2, Now());
  ASSERT_OK(from_second);
  ASSERT_THAT(*from_second, SizeIs(2));
  EXPECT_EQ(from_second->front().number, 2U);
  EXPECT_EQ(from_second->front().text, "second");
  EXPECT_GT(from_second->front().time, Time());
  EXPECT_THAT(*events.Next(0, Now()), SizeIs(3));
  EXPECT_THAT(*events.Next(4, Now()), IsEmpty());
}

TEST(EventsTest, NextWaitsForItsEvent) {
  Events events;
  auto next = std::async(std::launch::async, [&] { return events.Next(2, Soon()); });
  events.Add(Saying("first"));
  events.Add(Saying("second"));
  const auto got = next.get();
  ASSERT_OK(got);
  EXPECT_EQ(got->front().text, "second");
}

TEST(EventsTest, ForgetsTheOldestEvents) {
  Events events;
  for (std::size_t i = 0; i < Events::kKept + 5; ++i) events.Add(Saying("again"));
  const auto all = events.Next(1, Now());
  ASSERT_THAT(*all, SizeIs(Events::kKept));
  EXPECT_EQ(all->front().number, 6U);
}

TEST(EventsTest, EventsOfOtherHostsKeepTheirTime) {
  Events events("a");
  events.Add(Saying("ours"));
  Event other = Saying("theirs");
  other.host = "b";
  other.number = 4711;
  other.time = Time(seconds(1));
  events.AddOfOther(other);
  const auto all = events.Next(1, Now());
  ASSERT_OK(all);
  ASSERT_THAT(*all, SizeIs(2));
  EXPECT_EQ(all->front().host, "a");
  EXPECT_EQ(all->back().host, "b");
  EXPECT_EQ(all->back().number, 2U);
  EXPECT_EQ(all->back().time, Time(seconds(1)));
}

TEST(EventsTest, CloseEndsAllWaits) {
  Events events;
  auto next = std::async(std::launch::async, [&] { return events.Next(1, Soon()); });
  events.Close();
  EXPECT_THAT(next.get(), FailsWith(Code::kCancelled, "stopping"));
  EXPECT_THAT(events.Next(1, Soon()), FailsWith(Code::kCancelled, "stopping"));
}

}  // namespace
}  // namespace mooring::manager
