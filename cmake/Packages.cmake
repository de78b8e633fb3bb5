# The Debian packages, which packaging/deb builds: mooring-plugin, mooring-cli and mooring-manager. Each has the components
# of cmake/Install.cmake that begin with its name. They run on different hosts: a node of an orchestrator needs no manager,
# and should not have a socket that is as good as root.
set(CPACK_GENERATOR DEB)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/packaging/debian/complete.cmake)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # CPack would make it the first line of each description
set(CPACK_PACKAGE_CONTACT "Mooring maintainers <maintainers@mooring.invalid>" CACHE STRING "Who answers for the packages")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
# The packages of each release of Debian need its libraries. A host that is upgraded takes those of the newer release.
cmake_host_system_information(RESULT debian QUERY DISTRIB_VERSION_ID)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1~deb${debian})
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_COMPRESSION_TYPE none)  # packaging/deb does it
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)

# A unit does not start without the tool that creates its user or its directory.
set(of_a_service "systemd | systemd-standalone-sysusers, systemd | systemd-standalone-tmpfiles")

set(CPACK_DEBIAN_PLUGIN_PACKAGE_NAME mooring-plugin)
set(CPACK_DEBIAN_PLUGIN_DESCRIPTION "CSI driver for volumes on a Linux node
mooring-plugin serves CSI 1.12 on a Unix socket, for Nomad, Kubernetes,
Docker Swarm or the manager in mooring-manager. A volume is a file with an
ext4, xfs or btrfs filesystem of exactly its size, or a raw block device; in
pools of other kinds an encrypted file, a directory, a logical volume, a device
or memory. Snapshots and clones are made while volumes are written.

The plugin gives up its privileges; the mount helper in this package, which it
starts, mounts for it.")
set(CPACK_DEBIAN_PLUGIN_PACKAGE_DEPENDS "${of_a_service}, e2fsprogs")
set(CPACK_DEBIAN_PLUGIN_PACKAGE_RECOMMENDS "btrfs-progs, kmod, mooring-cli, xfsprogs")
set(CPACK_DEBIAN_PLUGIN_PACKAGE_SUGGESTS "cryptsetup-bin, lvm2, thin-provisioning-tools")

set(CPACK_DEBIAN_CLI_PACKAGE_NAME mooring-cli)
set(CPACK_DEBIAN_CLI_DESCRIPTION "command line for CSI plugins, their volumes and mounts
mooring asks any CSI plugin or the manager in mooring-manager, makes mounts by
hand, and says why a mount is not seen where it should be. mount.csi lets
mount(8), fstab and systemd's mount units use the manager's volumes.")

set(CPACK_DEBIAN_MANAGER_PACKAGE_NAME mooring-manager)
set(CPACK_DEBIAN_MANAGER_DESCRIPTION "volumes of any CSI plugin for a host without an orchestrator
mooring-manager runs or registers CSI plugins, keeps volumes, says who may use
them, and puts them at paths: for mount(8), for Docker and Podman, and for
whoever asks its socket. What is attached stays so while it is restarted or
updated.")
set(CPACK_DEBIAN_MANAGER_PACKAGE_DEPENDS "${of_a_service}, mooring-cli")
set(CPACK_DEBIAN_MANAGER_PACKAGE_SUGGESTS mooring-plugin)

foreach(name plugin cli manager)
  string(TOUPPER ${name} group)
  file(GLOB CPACK_DEBIAN_${group}_PACKAGE_CONTROL_EXTRA CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/packaging/debian/mooring-${name}/*)
  list(APPEND CPACK_COMPONENTS_ALL ${name} ${name}_docs)
endforeach()
list(APPEND CPACK_COMPONENTS_ALL plugin_service manager_service)

include(CPack)
foreach(component ${CPACK_COMPONENTS_ALL})
  string(REGEX REPLACE "_.*" "" name ${component})
  cpack_add_component(${component} GROUP ${name})
endforeach()
