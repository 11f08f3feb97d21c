# SPDX-License-Identifier: Apache-2.0
# Version by the rule of tools/build/nanet_version.py: nanet_version (three numbers). For a wheel it comes from there, and
# nanet_version_full too.
if(DEFINED SKBUILD_PROJECT_VERSION_FULL)
  set(nanet_version_full ${SKBUILD_PROJECT_VERSION_FULL})
else()
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/.git)
    execute_process(COMMAND git describe --tags --abbrev=0 --match v[0-9]*.[0-9]*.[0-9]* WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
      OUTPUT_VARIABLE nanet_version_full ERROR_QUIET RESULT_VARIABLE git_result)
  endif()
  if(NOT nanet_version_full)
    file(STRINGS python/nanet/__init__.py nanet_version_full REGEX "^RELEASE = ")
  endif()
endif()
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" nanet_version "${nanet_version_full}")
