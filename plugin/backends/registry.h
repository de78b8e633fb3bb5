// The table of backends.
#pragma once

#include <string_view>

#include "plugin/backends/interface/backend_type.h"
#include "plugin/model/backend_traits.h"

namespace mooring {

const BackendType& TypeOf(BackendKind kind);

inline const BackendTraits& TraitsOf(BackendKind kind) { return TypeOf(kind).traits; }
BackendTraits TraitsOf(const PoolConfig& pool);  // the abilities of this pool
inline std::string_view ToString(BackendKind kind) { return TraitsOf(kind).name; }

// The record's filesystem of a volume that asks for none. Where there is no choice, it is a name of the backend's own.
std::string_view DefaultFsTypeOf(BackendKind kind);

}  // namespace mooring
