# Warnings are errors in our own code, but not in generated code and Debian's headers.
add_library(mooring_warnings INTERFACE)
target_compile_options(mooring_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror)
