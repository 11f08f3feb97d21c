# SPDX-License-Identifier: Apache-2.0
# Build ID of plug-ins: version and hash of the headers that a plug-in is compiled against. The loader
# compares it (src/nanet/rich/plugin_build_id.hpp). As a script it prints the ID:
# cmake -DINCLUDE_DIR=src -DVERSION=0.1.0 -P cmake/plugin_build_id.cmake

# nanet_plugin_build_id(INCLUDE_DIR VERSION ID HEADERS): sets ID, and HEADERS to the headers in the hash:
# plugin/algorithm.hpp and all of nanet's that it includes, whatever the conditions around the lines.
function(nanet_plugin_build_id include_dir version id headers)
  set(found nanet/plugin/algorithm.hpp)
  set(pending ${found})
  while(pending)
    list(POP_FRONT pending header)
    file(STRINGS ${include_dir}/${header} lines REGEX "^[ \t]*#[ \t]*include[ \t]*\"nanet/")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^[^\"]*\"([^\"]+)\".*" "\\1" included "${line}")
      if(NOT included IN_LIST found)
        list(APPEND found ${included})
        list(APPEND pending ${included})
      endif()
    endforeach()
  endwhile()
  list(SORT found)
  set(content "")
  set(files "")
  foreach(header IN LISTS found)
    file(SHA256 ${include_dir}/${header} hash)
    string(APPEND content "${header} ${hash}\n")
    list(APPEND files ${include_dir}/${header})
  endforeach()
  string(SHA256 hash "${content}")
  string(SUBSTRING ${hash} 0 16 hash)
  set(${id} ${version}-${hash} PARENT_SCOPE)
  set(${headers} ${files} PARENT_SCOPE)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  nanet_plugin_build_id(${INCLUDE_DIR} ${VERSION} id headers)
  message(${id})
endif()
