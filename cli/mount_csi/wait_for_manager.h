// Waits of mount.csi and umount.csi for the manager. Each tells at once what it waits for.
#pragma once

#include <ostream>
#include <string_view>

#include "absl/status/status.h"
#include "cli/client/client.h"

namespace mooring::cli::mount_csi {

// Prints "PROGRAM: waiting up to 80 s: REASON".
void TellWait(std::string_view program, const Client::Limit& limit, std::string_view reason, std::ostream& err);

// Waits until the manager answers. Returns at once if waiting cannot help: this user may not open the socket, or it is
// none.
absl::Status WaitForManager(std::string_view program, const ClientOptions& options, const Client::Limit& limit,
                            std::ostream& err);

}  // namespace mooring::cli::mount_csi
