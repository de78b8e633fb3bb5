// Removes secrets from requests and from messages about them, before they are logged, stored or shown.
#pragma once

#include <google/protobuf/message.h>

#include <string>

namespace mooring {

// Sensitive fields are those with the option csi_secret (CSI 1.12, "Secrets Requirements"), the maps `secrets` and
// `environment`, and the mount flags.

// The request as one line, without its sensitive fields. Control characters are escaped.
std::string Redacted(const google::protobuf::Message& request);

// `text` with "***" for each sensitive value of `request`: plugins and tools quote their arguments in errors. Longer
// values are replaced first, because one may contain another. A value shorter than 4 bytes occurs in any text, so it is
// replaced only in quotes.
//
// In a mount flag only the text after the "=" may be a password. The sender of a request has to read which flag is
// wrong, so in an answer the rest of a flag stays. In a log, which others read, no part of a flag stays.
enum class Reader { kCaller, kLog };
std::string WithoutSecretsOf(const google::protobuf::Message& request, std::string text, Reader reader);

// Whether a field with the option csi_secret, or mount flags are set.
bool HasSecrets(const google::protobuf::Message& request);

}  // namespace mooring
