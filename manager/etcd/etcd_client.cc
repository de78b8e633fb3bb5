#include "manager/etcd/etcd_client.h"

#include <etcd.grpc.pb.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

#include "absl/strings/str_split.h"
#include "base/file/whole_file.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "base/text/whole_number.h"
#include "rpc/status.h"

namespace mooring::manager {
namespace {

constexpr std::string_view kScheme = "etcd://";
constexpr std::string_view kUnix = "unix:";

// A host name, an IPv4 address, or an IPv6 address in brackets; then a port.
bool HasHostAndPort(const std::string& member) {
  const std::size_t colon = member.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  const std::string host = member.substr(0, colon);
  const bool is_v6 = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string_view inner = is_v6 ? std::string_view(host).substr(1, host.size() - 2) : std::string_view(host);
  const bool plain = std::all_of(inner.begin(), inner.end(), [is_v6](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_' || (is_v6 && (c == ':' || c == '%'));
  });
  return plain && ParseWhole<std::uint16_t>(member.substr(colon + 1)).value_or(0) != 0;
}

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPause{100};  // between two rounds through the members

gpr_timespec After(std::chrono::milliseconds time) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(time.count(), GPR_TIMESPAN));
}

grpc::ChannelArguments Arguments() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  // Finds a member whose host has died, also under a watch that waits. etcd allows a ping each 5 s.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 3'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return arguments;
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> Credentials(const EtcdConnection& connection) {
  if (connection.certificate_file.empty() != connection.key_file.empty()) {
    return InvalidArgument("the certificate for etcd and its key belong together: give both files, or none");
  }
  if (connection.ca_file.empty()) {
    if (connection.key_file.empty()) return grpc::InsecureChannelCredentials();
    return InvalidArgument("a certificate for etcd needs TLS: give the file of etcd's CA, too");
  }
  grpc::SslCredentialsOptions options;
  MOORING_ASSIGN_OR_RETURN(options.pem_root_certs, ReadWholeFile(connection.ca_file));
  if (!connection.key_file.empty()) {
    MOORING_ASSIGN_OR_RETURN(options.pem_cert_chain, ReadWholeFile(connection.certificate_file));
    MOORING_ASSIGN_OR_RETURN(options.pem_private_key, ReadWholeFile(connection.key_file));
  }
  return grpc::SslCredentials(options);
}

bool Connected(grpc::Channel& member, std::chrono::milliseconds patience) {
  const gpr_timespec until = After(patience);
  for (auto state = member.GetState(true); state != GRPC_CHANNEL_READY; state = member.GetState(true)) {
    // Another member is asked at once, while gRPC tries this one again in the background.
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE || state == GRPC_CHANNEL_SHUTDOWN) return false;
    if (!member.WaitForStateChange(state, until)) return false;
  }
  return true;
}

bool Says(const grpc::Status& status, std::string_view text) {
  return status.error_message().find(text) != std::string::npos;
}

// The call was refused before anything was done, and another member or a later try may take it.
bool RefusedForNow(const grpc::Status& status) {
  return Says(status, "no leader") || Says(status, "too many requests") || Says(status, "proposal dropped");
}

// A member gives up a call in its own time with code UNKNOWN.
bool IsMembersDeadline(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNKNOWN && Says(status, "context deadline exceeded");
}

bool AnswerLost(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
         status.error_code() == grpc::StatusCode::CANCELLED || IsMembersDeadline(status);
}

bool TokenIsOld(const grpc::Status& status) {
  return Says(status, "invalid auth token") || Says(status, "revision in header is old") ||
         Says(status, "revision of auth store is old");
}

bool IsAskedFor(const etcdserverpb::RangeRequest& asked, const std::string& key) {
  const std::string& end = asked.range_end();
  if (end.empty()) return key == asked.key();
  return key >= asked.key() && (end == std::string(1, '\0') || key < end);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseEtcdEndpoints(const std::string& endpoints) {
  if (!endpoints.starts_with(kScheme) || endpoints.size() == kScheme.size()) {
    return InvalidArgument("the endpoints of etcd {} must have the form etcd://host1:2379,host2:2379",
                           Quote(endpoints));
  }
  const std::vector<std::string> members = absl::StrSplit(endpoints.substr(kScheme.size()), ',');
  for (const std::string& member : members) {
    if (member.starts_with(kUnix)) continue;
    if (!HasHostAndPort(member)) {
      return InvalidArgument("the endpoint of etcd {} must have the form host:port or unix:/path", Quote(member));
    }
  }
  return members;
}

bool StaysOnHost(const std::string& member) {
  return member.starts_with(kUnix) || member.starts_with("127.") || member.starts_with("[::1]:") ||
         member.starts_with("localhost:");
}

absl::StatusOr<std::shared_ptr<EtcdClient>> EtcdClient::Open(const EtcdConnection& connection) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> members, ParseEtcdEndpoints(connection.endpoints));
  MOORING_ASSIGN_OR_RETURN(const auto credentials, Credentials(connection));
  std::shared_ptr<EtcdClient> client(new EtcdClient(connection));
  client->name_ = fmt::format("etcd at {}", fmt::join(members, ","));
  if (!connection.user.empty()) {
    MOORING_ASSIGN_OR_RETURN(client->password_, ReadWholeFile(connection.password_file));
    while (client->password_.ends_with('\n')) client->password_.pop_back();
  }
  for (const std::string& member : members) {
    client->members_.push_back(grpc::CreateCustomChannel(member, credentials, Arguments()));
  }
  return client;
}

absl::StatusOr<std::string> EtcdClient::Token(const std::shared_ptr<grpc::Channel>& member) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!token_.empty()) return token_;
  grpc::ClientContext context;
  context.set_deadline(After(connection_.try_timeout));
  etcdserverpb::AuthenticateRequest request;
  request.set_name(connection_.user);
  request.set_password(password_);
  etcdserverpb::AuthenticateResponse response;
  const grpc::Status status = etcdserverpb::Auth::NewStub(member)->Authenticate(&context, request, &response);
  if (status.error_code() == grpc::StatusCode::INVALID_ARGUMENT) {
    return absl::UnauthenticatedError("the user " + Quote(connection_.user) + " or its password is wrong");
  }
  if (!status.ok()) return FromGrpc(status);
  return token_ = response.token();
}

void EtcdClient::ForgetToken() {
  const std::lock_guard<std::mutex> lock(mutex_);
  token_.clear();
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> EtcdClient::Prepare(std::size_t member, grpc::ClientContext& context) {
  const std::shared_ptr<grpc::Channel>& channel = members_[member % members_.size()];
  if (!Connected(*channel, TryTimeout())) return Unavailable("no connection");
  if (!connection_.user.empty()) {
    MOORING_ASSIGN_OR_RETURN(const std::string token, Token(channel));
    context.AddMetadata("token", token);
  }
  context.AddMetadata("hasleader", "true");  // a member without a leader refuses the call instead of waiting
  return channel;
}

absl::Status EtcdClient::Call(std::string_view action, const Try& attempt, bool* answer_lost, Clock::time_point until) {
  const Clock::time_point began = Clock::now();
  absl::Status last;
  int renewals = 0;  // of the token
  for (std::size_t tries = 1;; ++tries) {
    const std::size_t member = preferred_;
    grpc::ClientContext context;
    const auto channel = Prepare(member, context);
    if (channel.ok()) {
      context.set_deadline(After(TryTimeout()));
      const grpc::Status status = attempt(*channel, context);
      if (status.ok()) return absl::OkStatus();
      last = IsMembersDeadline(status) ? Unavailable(status.error_message()) : FromGrpc(status);
      const bool old_token = TokenIsOld(status) && ++renewals <= 3;
      if (old_token) ForgetToken();
      const bool lost = AnswerLost(status) && !RefusedForNow(status);
      if (lost && answer_lost != nullptr) *answer_lost = true;
      if ((lost && answer_lost != nullptr) || !(lost || RefusedForNow(status) || old_token)) {
        return Explain(action, last);
      }
      if (old_token) continue;
    } else {
      last = channel.status();
      if (!absl::IsUnavailable(last) && !absl::IsDeadlineExceeded(last)) return Explain(action, last);
    }
    preferred_ = (member + 1) % members_.size();
    if (Clock::now() >= std::min(until, began + Patience())) return Explain(action, Unavailable(Message(last)));
    if (tries % members_.size() == 0) std::this_thread::sleep_for(kPause);
  }
}

absl::Status EtcdClient::WrongAnswer(std::string_view why) const {
  return Internal("{} gave a wrong answer: {}: check that its addresses are those of an etcd, 3.4 or later", name_,
                  why);
}

absl::Status EtcdClient::Explain(std::string_view action, const absl::Status& status) const {
  const std::string what = fmt::format("cannot {}: {}: {}", action, name_, Visible(Message(status)));
  if (absl::IsResourceExhausted(status)) {
    return Unavailable(
        "{}: compact and defragment etcd, or raise its --quota-backend-bytes, and then run 'etcdctl alarm disarm'",
        what);
  }
  if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsCancelled(status)) {
    return Unavailable("{}: check that most members run, and that this host reaches them{}", what,
                       connection_.ca_file.empty() ? "" : ", and that the CA, the certificate and its key fit");
  }
  return absl::Status(status.code(), what);
}

absl::Status CheckPage(const etcdserverpb::RangeRequest& asked, const etcdserverpb::RangeResponse& page) {
  const std::string* last = nullptr;
  for (const mvccpb::KeyValue& found : page.kvs()) {
    if (!IsAskedFor(asked, found.key())) return Internal("the key {} was not asked for", Quote(found.key()));
    if (last != nullptr && found.key() <= *last) return Internal("the key {} is not in order", Quote(found.key()));
    last = &found.key();
  }
  if (page.more() && last == nullptr) return Internal("a page without keys is not the last one");
  return absl::OkStatus();
}

const mvccpb::KeyValue* FoundBy(const etcdserverpb::TxnResponse& response, int step) {
  if (step >= response.responses_size()) return nullptr;
  const etcdserverpb::RangeResponse& range = response.responses(step).response_range();
  return range.kvs().empty() ? nullptr : &range.kvs(0);
}

}  // namespace mooring::manager
