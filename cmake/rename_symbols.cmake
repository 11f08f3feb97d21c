# SPDX-License-Identifier: Apache-2.0
# Copies objects and appends a suffix to every symbol that they define, and to their uses of it (simd.cmake):
# cmake -DNM=nm -DOBJCOPY=objcopy -DREADELF=readelf -DSUFFIX=.avx2 "-DFROM=a.o;b.o" "-DTO=a.avx2.o;b.avx2.o"
#   -P cmake/rename_symbols.cmake
# Fails if a copy defines a symbol or a section group without the suffix, or has code that runs when a program starts.

# run(OUTPUT COMMAND...): sets OUTPUT to the lines that the command writes.
function(run output)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE text ERROR_VARIABLE errors RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "rename_symbols: ${ARGN}: ${errors}")
  endif()
  string(REGEX REPLACE "[][]" "|" text "${text}")  # brackets would join the elements of a list
  string(REPLACE "\n" ";" lines "${text}")
  set(${output} "${lines}" PARENT_SCOPE)
endfunction()

# Local symbols too: the group of a constructor has one as its name, and the linker keeps one group of each name.
run(lines ${NM} --format=posix --defined-only ${FROM})
set(names "")
foreach(line IN LISTS lines)
  if(line MATCHES "^([^ ]+) [A-Za-z] ")
    list(APPEND names ${CMAKE_MATCH_1})
  endif()
endforeach()
list(REMOVE_DUPLICATES names)
list(TRANSFORM names REPLACE "(.+)" "\\1 \\1${SUFFIX}\n" OUTPUT_VARIABLE content)
string(JOIN "" content ${content})
list(GET TO 0 list)
string(APPEND list ".names")
file(WRITE ${list} "${content}")
foreach(from to IN ZIP_LISTS FROM TO)
  run(lines ${OBJCOPY} --redefine-syms=${list} ${from} ${to})
endforeach()

string(REPLACE "." "\\." suffix "${SUFFIX}")
run(lines ${NM} --format=posix --defined-only ${TO})
foreach(line IN LISTS lines)
  if(line MATCHES "_GLOBAL__sub_I")
    message(FATAL_ERROR "rename_symbols: ${TO}: '${line}' runs when a program starts, on CPUs without these instructions "
      "too: remove the global object that needs a constructor")
  elseif(line MATCHES "^[^ ]+ [A-Za-z] " AND NOT line MATCHES "^[^ ]+${suffix} ")
    message(FATAL_ERROR "rename_symbols: ${TO}: '${line}' kept its name, which other objects may share")
  endif()
endforeach()
run(lines ${READELF} --wide --section-groups ${TO})
foreach(line IN LISTS lines)
  if(line MATCHES "^COMDAT group" AND NOT line MATCHES "${suffix}\\| contains")
    message(FATAL_ERROR "rename_symbols: ${TO}: '${line}' kept its name, which other objects may share")
  endif()
endforeach()
