// Empty: the target mooring_test_headers has a precompiled header, and CMake wants a source.
