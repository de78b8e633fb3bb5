set(MOORING_SANITIZE "" CACHE STRING "Sanitizers for the whole build, as -fsanitize= takes them")
if(MOORING_SANITIZE)
  add_compile_options(-fsanitize=${MOORING_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${MOORING_SANITIZE})
  if(MOORING_SANITIZE STREQUAL "thread")
    # With this macro protobuf's headers add two members to maps. The installed libprotobuf lacks them, so a read would be
    # memory corruption. libstdc++ reads the same macro, so its own macro is set instead.
    add_compile_options(-U__SANITIZE_THREAD__ -D_GLIBCXX_TSAN=1)
  endif()
endif()
