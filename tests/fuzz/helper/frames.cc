// Bytes that arrive on a channel of the mount helper: a frame, or no frame.
#include <sys/socket.h>

#include "mounter/helper/channel.h"
#include "mounter/helper/wire.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/helper/helper_world.h"

// The channel reads the first request. It is answered like any other.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mooring;  // NOLINT(google-build-using-namespace)
  auto pair = MakeSocketPair(SOCK_STREAM);
  fuzz::Require(pair.ok(), "a socket pair can be made");
  fuzz::Require(::send(pair->theirs.get(), data, size, MSG_DONTWAIT) == static_cast<ssize_t>(size),
                "the socket takes the input");
  pair->theirs.reset();
  Channel channel(std::move(pair->ours));
  pb::Request request;
  if (!channel.Receive(request, wire::kMostRequest).ok()) return 0;
  request.set_patience_ms(0);
  fuzz::HelperWorld().Answer(request);
  return 0;
}
