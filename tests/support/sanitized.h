// Whether this is a build with sanitizers. It is many times slower, so tests do not measure time in it.
#pragma once

namespace mooring::testing {

// (cmake/Sanitizers.cmake takes GCC's own macro of the thread sanitizer away and gives libstdc++'s.)
#if defined(_GLIBCXX_TSAN) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace mooring::testing
