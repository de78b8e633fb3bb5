# The files of `cmake --install`, with the prefix /usr (units and mount(8) name paths below it). The components, with NAME
# `plugin`, `cli` or `manager`:
#   NAME          the programs, as a container image needs them; `plugin` has the mounter, too
#   NAME_service  systemd units, users, directories, and the file of variables in /etc/default
#   NAME_docs     man pages, completions, examples for other programs; `plugin_docs` has the documents of all three
include(GNUInstallDirs)

# mooring_install_pages(NAME PAGE...): installs pages of docs/man.
function(mooring_install_pages name)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/docs/man/)
  install(FILES ${ARGN} DESTINATION ${CMAKE_INSTALL_MANDIR}/man8 COMPONENT ${name}_docs)
endfunction()

# mooring_install_examples(NAME FILE...): installs files of packaging/. An administrator copies them to where they are read.
function(mooring_install_examples name)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/packaging/)
  install(FILES ${ARGN} DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/mooring-${name}/examples COMPONENT ${name}_docs)
endfunction()

# mooring_install_documents(NAME): installs docs/ without docs/man.
function(mooring_install_documents name)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/mooring-${name}
          COMPONENT ${name}_docs FILES_MATCHING PATTERN *.md PATTERN *.tsv PATTERN man EXCLUDE)
endfunction()

# mooring_install_units(NAME UNIT...): installs units of packaging/systemd, with their users, directories and variables.
function(mooring_install_units name)
  set(directory ${PROJECT_SOURCE_DIR}/packaging/systemd)
  list(TRANSFORM ARGN PREPEND ${directory}/)
  install(FILES ${ARGN} DESTINATION lib/systemd/system COMPONENT ${name}_service)
  install(FILES ${directory}/mooring-${name}.tmpfiles DESTINATION lib/tmpfiles.d RENAME mooring-${name}.conf
          COMPONENT ${name}_service)
  # Changes of an administrator stay.
  install(CODE "if(NOT EXISTS \"\$ENV{DESTDIR}/etc/default/mooring-${name}\")
  file(INSTALL \"${directory}/mooring-${name}.default\" DESTINATION /etc/default RENAME mooring-${name})
endif()" COMPONENT ${name}_service)
  if(EXISTS ${directory}/mooring-${name}.sysusers)
    install(FILES ${directory}/mooring-${name}.sysusers DESTINATION lib/sysusers.d RENAME mooring-${name}.conf
            COMPONENT ${name}_service)
  endif()
endfunction()
