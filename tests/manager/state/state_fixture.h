// A test of a State, on the store that the test program links: SQLite or etcd.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "manager/state/state.h"
#include "tests/manager/prelude.h"

namespace mooring::manager {

// Where a state is kept. Each test has a new, empty one.
class Store {
 public:
  virtual ~Store() = default;
  virtual std::unique_ptr<State> Open() = 0;
};
std::unique_ptr<Store> NewStore();

inline std::chrono::steady_clock::time_point Now() { return std::chrono::steady_clock::now(); }
inline Transaction Put(const std::string& key, const std::string& value) {
  return {.compares = {}, .puts = {{key, value}}, .deletes = {}};
}
inline Transaction Delete(const std::string& key) { return {.compares = {}, .puts = {}, .deletes = {key}}; }

class StateTest : public ::testing::Test {
 protected:
  StateTest() {
    Reopen();
    before_ = state_->List("")->revision;
  }

  void Reopen() {
    state_.reset();
    state_ = store_->Open();
    ASSERT_NE(state_, nullptr);
  }

  State& state() { return *state_; }

  // Texts and At count revisions from the start of the test.
  std::int64_t At(std::int64_t revision) const { return before_ + revision; }

  std::int64_t Commit(const Transaction& transaction) {
    const auto revision = state_->Commit(transaction);
    EXPECT_OK(revision);
    return revision.value_or(-1);
  }

  std::string ToText(const KeyValue& value) const {
    return value.key + "=" + value.value + " made " + std::to_string(value.create_revision - before_) + " changed " +
           std::to_string(value.modify_revision - before_);
  }
  std::vector<std::string> ToText(const std::vector<Change>& changes) const {
    std::vector<std::string> texts;
    for (const Change& change : changes) {
      texts.push_back((change.kind == Change::Kind::kPut ? "put " : "delete ") + ToText(change.value));
    }
    return texts;
  }

  std::string Get(const std::string& key) {
    const auto value = state_->Get(key);
    EXPECT_OK(value);
    return value.ok() && value->has_value() ? ToText(**value) : "nothing";
  }

  // Without the keys of hosts that are alive, and the id of a shared state.
  std::vector<std::string> List(const std::string& prefix) {
    std::vector<std::string> keys;
    const auto listing = state_->List(prefix);
    EXPECT_OK(listing);
    for (const KeyValue& value : listing->values) {
      if (!value.key.starts_with("live/") && value.key != "shared/cluster") keys.push_back(value.key);
    }
    return keys;
  }

  std::unique_ptr<Watch> StartWatch(const std::string& prefix, std::int64_t from) {
    auto watch = state_->StartWatch(prefix, from);
    EXPECT_OK(watch);
    return *std::move(watch);
  }

  // The next `count` changes.
  std::vector<std::string> Take(Watch& watch, std::size_t count) {
    std::vector<std::string> texts;
    while (texts.size() < count) {
      const auto changes = watch.Next(Soon());
      EXPECT_OK(changes);
      if (!changes.ok() || changes->empty()) break;
      for (const std::string& text : ToText(*changes)) texts.push_back(text);
    }
    return texts;
  }

  std::unique_ptr<Store> store_ = NewStore();
  std::unique_ptr<State> state_;
  std::int64_t before_ = 0;  // the revision at the start
};

}  // namespace mooring::manager
