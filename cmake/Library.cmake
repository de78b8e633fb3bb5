# mooring_library(NAME SOURCES file... [PUBLIC library...] [PRIVATE library...] [GRPC]): the static library mooring_NAME,
# also known as mooring::NAME, of the folder it is called in. PUBLIC are libraries that its headers include, PRIVATE
# those that only its sources do: `tests/lint arrows` holds the includes to these lists.
# GRPC: its sources include gRPC's headers, so they share one precompiled header.
option(MOORING_UNITY "Compile several sources of a library at once: a whole build takes a third of the time" OFF)

function(mooring_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg GRPC "" "SOURCES;PUBLIC;PRIVATE")
  add_library(mooring_${name} STATIC ${arg_SOURCES})
  add_library(mooring::${name} ALIAS mooring_${name})
  target_link_libraries(mooring_${name} PUBLIC mooring::base ${arg_PUBLIC} PRIVATE ${arg_PRIVATE} mooring_warnings)
  set_target_properties(mooring_${name} PROPERTIES UNITY_BUILD ${MOORING_UNITY} UNITY_BUILD_BATCH_SIZE 8)
  if(arg_GRPC)
    target_precompile_headers(mooring_${name} REUSE_FROM mooring_grpc_headers)
  endif()
endfunction()
