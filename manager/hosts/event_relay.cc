#include "manager/hosts/event_relay.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "manager.pb.h"
#include "manager/records/record_codec.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

constexpr std::chrono::seconds kLook{1};  // how soon the sender notices a stop

std::string Shortened(std::string text) {
  if (text.size() <= EventRelay::kMostText) return text;
  std::size_t end = EventRelay::kMostText;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;  // within a character of UTF-8
  return text.substr(0, end) + "…";
}

// nullopt: the value is of a newer version.
std::optional<v1::StoredEvent> Parsed(const KeyValue& value) {
  v1::StoredEvent stored;
  if (!stored.ParseFromString(value.value) || stored.event().host().empty()) return std::nullopt;
  return stored;
}

}  // namespace

EventRelay::EventRelay(State& shared, Events& events, WorkQueue& queue, Settings settings)
    : shared_(shared),
      events_(events),
      settings_(std::move(settings)),
      reader_(shared, queue, EventsPrefix(),
              {.listed = [this](const Listing& all) { TakeListed(all.values); },
               .changed = [this](const std::vector<Change>& changes) { TakePuts(changes); }},
              {.first_pause = settings_.retry, .longest_pause = settings_.retry}),
      sender_([this](const std::stop_token& stop) { Send(stop); }) {}

void EventRelay::Stop() {
  reader_.BeginStop();
  sender_.request_stop();
  reader_.Stop();
  if (sender_.joinable()) sender_.join();
}

void EventRelay::Send(const std::stop_token& stop) {
  for (std::uint64_t next = 1; !stop.stop_requested();) {
    const auto until = Clock::now() + (unsent_.empty() ? Clock::duration(kLook) : Clock::duration::zero());
    const auto events = events_.Next(next, until);
    if (!events.ok()) return;  // the manager is stopping
    for (const Event& event : *events) {
      next = event.number + 1;
      if (event.host == settings_.host) unsent_.push_back(event);
      if (unsent_.size() > kSlots) unsent_.pop_front();
    }
    if (unsent_.empty()) continue;
    const std::size_t count = std::min(unsent_.size(), kBatch);
    const absl::Status status = PutOldest(count);
    if (status.ok() || !MayPass(status)) {
      unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<std::ptrdiff_t>(count));
    }
    if (!status.ok() && !MayPass(status)) {
      log::Once(log::Level::kWarning, "other hosts do not see all events of this host; logged once",
                {{"cause", Message(status)}});
    }
    SleepUntil(stop, Clock::now() + settings_.send_every);
  }
}

absl::Status EventRelay::PutOldest(std::size_t count) {
  Transaction put;
  for (std::size_t i = 0; i < count; ++i) {
    v1::StoredEvent stored;
    *stored.mutable_event() = ToProto(unsent_[i]);
    stored.mutable_event()->set_text(Shortened(stored.event().text()));
    stored.set_run(settings_.run);
    put.puts.push_back({.key = fmt::format("{}{:03}", EventsPrefix(settings_.host), (sent_ + i) % kSlots),
                        .value = stored.SerializeAsString(),
                        .ends_with = Transaction::EndsWith::kOwnLease});
  }
  MOORING_RETURN_IF_ERROR(shared_.Commit(put).status());
  sent_ += count;
  return absl::OkStatus();
}

void EventRelay::TakePuts(const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    if (change.kind == Change::Kind::kPut) Take(change.value);
  }
}

// In the order in which they happened, as far as the clocks of the hosts agree. Events of one host keep their order.
void EventRelay::TakeListed(const std::vector<KeyValue>& values) {
  std::vector<const KeyValue*> ordered;
  std::map<const KeyValue*, std::pair<std::int64_t, std::uint64_t>> when;
  for (const KeyValue& value : values) {
    const auto stored = Parsed(value);
    if (!stored || stored->event().host() == settings_.host) continue;
    when[&value] = {stored->event().time_ms(), stored->event().number()};
    ordered.push_back(&value);
  }
  std::sort(ordered.begin(), ordered.end(), [&](const auto* a, const auto* b) { return when[a] < when[b]; });
  const std::size_t skipped = ordered.size() - std::min(ordered.size(), kListed);
  for (std::size_t i = skipped; i < ordered.size(); ++i) Take(*ordered[i]);
}

void EventRelay::Take(const KeyValue& value) {
  const auto stored = Parsed(value);
  if (!stored || stored->event().host() == settings_.host) return;
  auto event = FromProto(stored->event());
  if (!event.ok()) return;
  Seen& seen = seen_[event->host];
  // A commit whose answer was lost is repeated, and a list has what was seen before.
  if (seen.run == stored->run() && event->number <= seen.number) return;
  seen = {.run = stored->run(), .number = event->number};
  events_.AddOfOther(*std::move(event));
}

}  // namespace mooring::manager
