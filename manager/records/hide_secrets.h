// Removes secrets from texts that are logged, stored and shown, because plugins quote requests in their errors.
#ifndef MOORING_MANAGER_RECORDS_HIDE_SECRETS_H_
#define MOORING_MANAGER_RECORDS_HIDE_SECRETS_H_

#include <google/protobuf/message.h>

#include <string>

namespace mooring::manager {

// Replaces with "***" in `text` the values of the maps `secrets` and `environment` of `request`. The same is done for
// each of its mount flags, and for the part of a flag after "=". Longer secrets come first, because one may contain
// another. A secret of less than 4 bytes occurs in many texts by chance, and is replaced only in quotes.
std::string WithoutSecretsOf(const google::protobuf::Message& request, std::string text);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_RECORDS_HIDE_SECRETS_H_
