# Warnings are errors in our own code; generated code and Debian's headers are not ours to mend.
add_library(mooring_warnings INTERFACE)
target_compile_options(mooring_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror)
