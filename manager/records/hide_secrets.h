// Secrets out of words that are logged, kept and shown: plugins quote in their errors what they were sent.
#ifndef MOORING_MANAGER_RECORDS_HIDE_SECRETS_H_
#define MOORING_MANAGER_RECORDS_HIDE_SECRETS_H_

#include <google/protobuf/message.h>

#include <string>

namespace mooring::manager {

// `words` with "***" for each value of the maps `secrets` and `environment` and each mount flag of `request`, whole and
// what is behind its "=". Longer ones first: one may be a part of another. What is shorter than 4 bytes is in every
// text, and hidden in quotes only.
std::string WithoutSecretsOf(const google::protobuf::Message& request, std::string words);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_RECORDS_HIDE_SECRETS_H_
