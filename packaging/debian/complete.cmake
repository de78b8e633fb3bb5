# Run by cpack over each package's tree, between its installation and its packing: what Debian's policy asks for besides
# (/usr/share/doc, compressed pages), and the bill of materials, which has the sums of the programs as they are shipped.
list(GET CPACK_INSTALL_CMAKE_PROJECTS 0 build)
file(GLOB trees LIST_DIRECTORIES true ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*)
foreach(tree ${trees})
  get_filename_component(name ${tree} NAME)
  execute_process(COMMAND ${CMAKE_CURRENT_LIST_DIR}/complete ${build} ${tree} mooring-${name}
                          ${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}
                  COMMAND_ERROR_IS_FATAL ANY)
endforeach()
