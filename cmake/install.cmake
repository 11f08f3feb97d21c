# SPDX-License-Identifier: Apache-2.0
# Installs the headers, the library and nanetConfig.cmake, for find_package(nanet CONFIG) in other projects.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS nanet EXPORT nanet COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/nanet DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*.cuh" PATTERN "*_test.hpp" EXCLUDE PATTERN "python" EXCLUDE)
# Second copy in the Python package only, for `nanet build-algorithm`.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/nanet DESTINATION nanet/include COMPONENT python EXCLUDE_FROM_ALL
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*.cuh" PATTERN "*_test.hpp" EXCLUDE PATTERN "python" EXCLUDE)
# pkg-config, relocatable: the prefix is found from the file's place.
list(TRANSFORM CMAKE_DL_LIBS PREPEND -l OUTPUT_VARIABLE nanet_dl)
list(JOIN nanet_dl " " nanet_dl)
file(RELATIVE_PATH nanet_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/nanet.pc.in ${PROJECT_BINARY_DIR}/nanet.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/nanet.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/nanet)
install(EXPORT nanet NAMESPACE nanet:: FILE nanetTargets.cmake DESTINATION ${package_dir} COMPONENT development)
configure_package_config_file(cmake/nanetConfig.cmake.in ${PROJECT_BINARY_DIR}/nanetConfig.cmake
  INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/nanetConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/nanetConfig.cmake ${PROJECT_BINARY_DIR}/nanetConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/algorithm.cmake ${PROJECT_SOURCE_DIR}/cmake/plugin_build_id.cmake DESTINATION ${package_dir} COMPONENT development)
