# Configures base/version.h: the release, and the commit it is built from. That is git's in a checkout ("-dirty" where files
# of it are changed); in an archive, which `git archive` wrote it into, that of cmake/commit; else "unknown".
# MOORING_COMMIT_TIME, seconds of 1970, goes with it: packages bear no other time.
set(MOORING_SOURCE_COMMIT "" CACHE STRING "For a tree that is neither, as in a container: 'HASH SECONDS' (git log -1 --format='%H %ct'); HASH-dirty where files are changed")
set(MOORING_COMMIT "unknown")
set(MOORING_COMMIT_TIME "")
find_package(Git QUIET)
set(commit_line "${MOORING_SOURCE_COMMIT}")
set(changed 0)
if(commit_line STREQUAL "" AND GIT_FOUND AND EXISTS ${PROJECT_SOURCE_DIR}/.git)  # a checkout around us is none of ours
  set(git ${GIT_EXECUTABLE} -c safe.directory=${PROJECT_SOURCE_DIR} --no-optional-locks)
  execute_process(COMMAND ${git} log -1 --format=%H\ %ct WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
                  OUTPUT_VARIABLE commit_line OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  execute_process(COMMAND ${git} diff --quiet HEAD -- WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
                  ERROR_QUIET RESULT_VARIABLE changed)
  # A line comes to this with each commit, checkout and rebase: then a build asks again.
  execute_process(COMMAND ${git} rev-parse --git-path logs/HEAD WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
                  OUTPUT_VARIABLE head_log OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  get_filename_component(head_log "${head_log}" ABSOLUTE BASE_DIR ${PROJECT_SOURCE_DIR})
  if(EXISTS "${head_log}" AND NOT IS_DIRECTORY "${head_log}")
    set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${head_log}")
  endif()
elseif(commit_line STREQUAL "")
  file(STRINGS ${PROJECT_SOURCE_DIR}/cmake/commit commit_line LIMIT_COUNT 1)
endif()
if(commit_line MATCHES "^([0-9a-f]+)(-dirty)? ([0-9]+)$")
  set(MOORING_COMMIT_TIME ${CMAKE_MATCH_3})
  if(CMAKE_MATCH_2)
    set(changed 1)
  endif()
  string(SUBSTRING ${CMAKE_MATCH_1} 0 12 MOORING_COMMIT)
  if(changed)
    string(APPEND MOORING_COMMIT "-dirty")
  endif()
endif()
configure_file(${PROJECT_SOURCE_DIR}/base/version.cc.in ${PROJECT_BINARY_DIR}/generated/base/version.cc @ONLY)
file(WRITE ${PROJECT_BINARY_DIR}/commit.cmake "set(MOORING_COMMIT_TIME \"${MOORING_COMMIT_TIME}\")\n")  # for packaging/deb
