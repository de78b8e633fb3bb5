# Configures base/version.h with the release and the commit. In a checkout git tells the commit ("-dirty" if files are
# changed). In an archive, cmake/commit has it, which `git archive` fills in. Otherwise it is "unknown".
# MOORING_COMMIT_TIME is its time in seconds since 1970. Packages contain no other time.
set(MOORING_SOURCE_COMMIT "" CACHE STRING "For a tree that is neither, as in a container: 'HASH SECONDS' (git log -1 --format='%H %ct'); HASH-dirty where files are changed")
set(MOORING_COMMIT "unknown")
set(MOORING_COMMIT_TIME "")
find_package(Git QUIET)
set(commit_line "${MOORING_SOURCE_COMMIT}")
set(changed 0)
if(commit_line STREQUAL "" AND GIT_FOUND AND EXISTS ${PROJECT_SOURCE_DIR}/.git)  # ignore a checkout that contains this tree
  set(git ${GIT_EXECUTABLE} -c safe.directory=${PROJECT_SOURCE_DIR} --no-optional-locks)
  execute_process(COMMAND ${git} log -1 --format=%H\ %ct WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
                  OUTPUT_VARIABLE commit_line OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  execute_process(COMMAND ${git} diff --quiet HEAD -- WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
                  ERROR_QUIET RESULT_VARIABLE changed)
  # Each commit, checkout and rebase adds a line to this file. Then a build configures again.
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
