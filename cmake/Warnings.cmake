# Warnings are errors in our own code, but not in generated code and Debian's headers.
add_library(mooring_warnings INTERFACE)
target_compile_options(mooring_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # The std::stable_sort of GCC 12 calls a function that its headers deprecate. A struct of the kernel ends with an array
  # without elements.
  target_compile_options(mooring_warnings INTERFACE -Wno-deprecated-declarations -Wno-zero-length-array)
endif()
