# cpack runs this over each package's tree, between installation and packing. It adds files that Debian's policy requires
# (/usr/share/doc, compressed pages), and the bill of materials, with the sums of the shipped programs.
list(GET CPACK_INSTALL_CMAKE_PROJECTS 0 build)
file(GLOB trees LIST_DIRECTORIES true ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*)
foreach(tree ${trees})
  get_filename_component(name ${tree} NAME)
  execute_process(COMMAND ${CMAKE_CURRENT_LIST_DIR}/complete ${build} ${tree} mooring-${name}
                          ${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}
                  COMMAND_ERROR_IS_FATAL ANY)
endforeach()
