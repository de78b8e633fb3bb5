# What `cmake --install` puts where, with the prefix /usr (units and mount(8) name paths below it). Components, of the
# programs `plugin`, `cli`, `manager`:
#   NAME          the programs alone, as a container image wants them; `plugin` has the mount helper, too
#   NAME_service  systemd units, users, directories, and the file of variables in /etc/default
#   NAME_docs     man pages, completions, examples of what other programs read; of the plugin the documents of all three
include(GNUInstallDirs)

# mooring_install_pages(NAME PAGE...): of docs/man.
function(mooring_install_pages name)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/docs/man/)
  install(FILES ${ARGN} DESTINATION ${CMAKE_INSTALL_MANDIR}/man8 COMPONENT ${name}_docs)
endfunction()

# mooring_install_examples(NAME FILE...): of packaging. It is for an administrator to put them where they are read.
function(mooring_install_examples name)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/packaging/)
  install(FILES ${ARGN} DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/mooring-${name}/examples COMPONENT ${name}_docs)
endfunction()

# mooring_install_documents(NAME): docs, but for its pages of man.
function(mooring_install_documents name)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/mooring-${name}
          COMPONENT ${name}_docs FILES_MATCHING PATTERN *.md PATTERN man EXCLUDE)
endfunction()

# mooring_install_units(NAME UNIT...): of packaging/systemd, and what goes with them.
function(mooring_install_units name)
  set(directory ${PROJECT_SOURCE_DIR}/packaging/systemd)
  list(TRANSFORM ARGN PREPEND ${directory}/)
  install(FILES ${ARGN} DESTINATION lib/systemd/system COMPONENT ${name}_service)
  install(FILES ${directory}/mooring-${name}.tmpfiles DESTINATION lib/tmpfiles.d RENAME mooring-${name}.conf
          COMPONENT ${name}_service)
  # What an administrator has changed stays.
  install(CODE "if(NOT EXISTS \"\$ENV{DESTDIR}/etc/default/mooring-${name}\")
  file(INSTALL \"${directory}/mooring-${name}.default\" DESTINATION /etc/default RENAME mooring-${name})
endif()" COMPONENT ${name}_service)
  if(EXISTS ${directory}/mooring-${name}.sysusers)
    install(FILES ${directory}/mooring-${name}.sysusers DESTINATION lib/sysusers.d RENAME mooring-${name}.conf
            COMPONENT ${name}_service)
  endif()
endfunction()
