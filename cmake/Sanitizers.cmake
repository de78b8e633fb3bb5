set(MOORING_SANITIZE "" CACHE STRING "Sanitizers for the whole build, as -fsanitize= takes them")
if(MOORING_SANITIZE)
  add_compile_options(-fsanitize=${MOORING_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${MOORING_SANITIZE})
  if(MOORING_SANITIZE STREQUAL "thread")
    # protobuf's headers give maps two members more when they see this macro, and the installed libprotobuf has no such
    # members: reading one would be memory corruption. libstdc++ asks for the same macro, so it is told by its own.
    add_compile_options(-U__SANITIZE_THREAD__ -D_GLIBCXX_TSAN=1)
  endif()
endif()
