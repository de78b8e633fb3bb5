# Everything comes from Debian 12 or 13. gRPC, protobuf and abseil are linked statically: half the idle memory and a third of the
# start-up time of the shared ones. libmount, libblkid, libudev and prometheus-cpp exist as shared libraries only.
# libuuid is linked as a shared library too, because mke2fs needs that on every host.
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without these settings ccache(1) never caches users of a precompiled header, and another clone finds nothing.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
                                  CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${PROJECT_SOURCE_DIR}/cmake/ccache ${CCACHE})
  add_compile_options(-fpch-preprocess)
endif()

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)
find_package(spdlog REQUIRED)
find_package(SQLiteCpp REQUIRED)
find_package(CLI11 REQUIRED)
pkg_check_modules(LIBMOUNT REQUIRED IMPORTED_TARGET mount>=2.38)
pkg_check_modules(LIBUDEV REQUIRED IMPORTED_TARGET libudev>=252)
pkg_check_modules(LIBBLKID REQUIRED IMPORTED_TARGET blkid>=2.38)
pkg_check_modules(LIBUUID REQUIRED IMPORTED_TARGET uuid>=2.38)
find_package(OpenSSL REQUIRED COMPONENTS Crypto SSL)
pkg_check_modules(HTTPLIB REQUIRED IMPORTED_TARGET cpp-httplib>=0.11)
find_package(nlohmann_json REQUIRED)
# These have no static library. Only the core of prometheus-cpp: its HTTP server would add civetweb, zlib and threads.
pkg_check_modules(PROMETHEUS REQUIRED IMPORTED_TARGET prometheus-cpp-core>=1.0)
pkg_check_modules(LIBSYSTEMD REQUIRED IMPORTED_TARGET libsystemd>=252)
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)

# Debian's CMake packages of abseil and gRPC name only the shared libraries. The static libraries refer to each other in
# circles, so each set is linked as a group. A group is a single item, so CMake neither reorders nor merges it.
function(mooring_static_group target)
  set(archives "")
  foreach(name IN LISTS ARGN)
    find_library(archive_${name} NAMES lib${name}.a REQUIRED)
    list(APPEND archives ${archive_${name}})
  endforeach()
  list(JOIN archives "," joined)
  add_library(${target} INTERFACE)
  target_link_libraries(${target} INTERFACE "-Wl,--start-group,${joined},--end-group" Threads::Threads ${CMAKE_DL_LIBS})
endfunction()

file(GLOB absl_files /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/libabsl_*.a)
list(FILTER absl_files EXCLUDE REGEX "absl_flags|test_util|failure_signal")
set(absl_names "")
foreach(file IN LISTS absl_files)
  get_filename_component(name ${file} NAME_WE)
  string(REGEX REPLACE "^lib" "" name ${name})
  list(APPEND absl_names ${name})
endforeach()

mooring_static_group(mooring_absl ${absl_names})
# The lite messages of proto/ link only a part of it.
mooring_static_group(mooring_protobuf protobuf z)
mooring_static_group(mooring_cap cap)
mooring_static_group(mooring_seccomp seccomp)
mooring_static_group(mooring_plain_grpc
  grpc++_unsecure grpc_unsecure gpr address_sorting upb cares re2 protobuf z ${absl_names})
mooring_static_group(mooring_tls_grpc grpc++ grpc gpr address_sorting upb cares re2 protobuf z ${absl_names})
target_link_libraries(mooring_tls_grpc INTERFACE OpenSSL::SSL)

# gRPC with TLS is larger, so only programs with the property MOORING_TLS link it.
add_library(mooring_grpc INTERFACE)
set(with_tls $<BOOL:$<TARGET_PROPERTY:MOORING_TLS>>)
target_link_libraries(mooring_grpc INTERFACE $<IF:${with_tls},mooring_tls_grpc,mooring_plain_grpc>)
