# Configures base/version.h: the release, and the commit it was built from ("unknown" outside a checkout).
find_package(Git QUIET)
set(MOORING_COMMIT "unknown")
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --short=12 HEAD
                  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(MOORING_COMMIT ${commit})
  endif()
endif()
configure_file(${PROJECT_SOURCE_DIR}/base/version.cc.in ${PROJECT_BINARY_DIR}/generated/base/version.cc @ONLY)
