# Everything comes from Debian 12. gRPC, protobuf and abseil are linked statically: half the idle memory and a third of the
# start-up time of the shared ones. libmount, libblkid and libudev exist as shared libraries only.
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(Protobuf REQUIRED)
find_package(spdlog REQUIRED)
find_package(SQLiteCpp REQUIRED)
find_package(CLI11 REQUIRED)
pkg_check_modules(LIBMOUNT REQUIRED IMPORTED_TARGET mount>=2.38)
pkg_check_modules(LIBBLKID REQUIRED IMPORTED_TARGET blkid>=2.38)
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)

# Debian's CMake package of gRPC names its shared libraries only; the static ones go in as one group, since they refer to
# each other in circles.
add_library(mooring_grpc INTERFACE)
file(GLOB absl_archives /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/libabsl_*.a)
list(FILTER absl_archives EXCLUDE REGEX "absl_flags|test_util|failure_signal")
target_link_libraries(mooring_grpc INTERFACE
  -Wl,--start-group
  libgrpc++_unsecure.a libgrpc_unsecure.a libgpr.a libaddress_sorting.a libupb.a libcares.a libre2.a libprotobuf.a libz.a
  ${absl_archives}
  -Wl,--end-group
  Threads::Threads ${CMAKE_DL_LIBS})

# abseil's own targets pull in the static archives already (Debian ships both): only the three the design allows.
add_library(mooring_absl INTERFACE)
target_link_libraries(mooring_absl INTERFACE absl::status absl::statusor absl::cleanup)
