# SPDX-License-Identifier: Apache-2.0
# CPU variants: compiles the reconstructors for AVX2 (x86-64-v3) and for AVX-512 (x86-64-v4). src/nanet/rich/simd.cpp
# chooses one at run time. Sanitizer and coverage builds, and other processors, have one variant with the flags of the
# library: baseline. Builds whose CPU may lack AVX2 have it as well.
#
# Templates and inline functions of the variants have equal names, of which the linker would keep one: AVX-512 code could
# run on CPUs without it. So objcopy appends the variant's name to every symbol that they define (rename_symbols.cmake).
include(CheckCXXSourceCompiles)
set(nanet_simd_variants "")
set(nanet_simd_baseline ON)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" AND CMAKE_NM AND CMAKE_OBJCOPY AND CMAKE_READELF AND NOT NANET_SANITIZE AND NOT NANET_COVERAGE)
  set(nanet_simd_variants avx2 avx512)
  set(CMAKE_REQUIRED_QUIET ON)
  set(CMAKE_REQUIRED_FLAGS ${CMAKE_CXX_FLAGS})
  if(NANET_ARCH)
    string(APPEND CMAKE_REQUIRED_FLAGS " -march=${NANET_ARCH}")
  endif()
  string(MAKE_C_IDENTIFIER "NANET_AVX2_${NANET_ARCH}" nanet_avx2)
  check_cxx_source_compiles("#if !defined(__AVX2__) || !defined(__FMA__) || !defined(__BMI2__)\n#error\n#endif\nint main() {}" ${nanet_avx2})
  unset(CMAKE_REQUIRED_FLAGS)
  unset(CMAKE_REQUIRED_QUIET)
  if(${nanet_avx2})
    set(nanet_simd_baseline OFF)
  endif()
endif()
set(nanet_simd_arch_avx2 x86-64-v3)
set(nanet_simd_arch_avx512 x86-64-v4)

# Vectorises square roots and comparisons without changing results. -Wno-psabi: no vector crosses a function
# boundary here.
set(nanet_vector_options -fno-math-errno -fno-trapping-math -Wno-psabi)

# nanet_add_simd(SOURCE...): adds the sources to the library once per variant. Called in the library's directory.
function(nanet_add_simd)
  file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/simd)
  set(definitions "")
  set(sources ${ARGN})
  list(TRANSFORM sources PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  if(nanet_simd_baseline)
    target_sources(nanet PRIVATE ${sources})
    set_source_files_properties(${sources} TARGET_DIRECTORY nanet PROPERTIES
      SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "${nanet_vector_options}")
    list(APPEND definitions NANET_SIMD_BASELINE)
  endif()
  foreach(variant IN LISTS nanet_simd_variants)
    set(target nanet_simd_${variant})
    add_library(${target} OBJECT ${sources})
    target_link_libraries(${target} PRIVATE nanet_portable_flags)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${nanet_generated_dir})
    target_compile_options(${target} PRIVATE -march=${nanet_simd_arch_${variant}} ${nanet_vector_options})
    set(renamed "")
    foreach(source IN LISTS sources)
      get_filename_component(stem ${source} NAME_WE)
      list(APPEND renamed ${CMAKE_CURRENT_BINARY_DIR}/simd/${stem}.${variant}.o)
    endforeach()
    add_custom_command(OUTPUT ${renamed} VERBATIM
      COMMAND ${CMAKE_COMMAND} -DNM=${CMAKE_NM} -DOBJCOPY=${CMAKE_OBJCOPY} -DREADELF=${CMAKE_READELF} -DSUFFIX=.${variant}
        "-DFROM=$<TARGET_OBJECTS:${target}>" "-DTO=${renamed}" -P ${PROJECT_SOURCE_DIR}/cmake/rename_symbols.cmake
      DEPENDS $<TARGET_OBJECTS:${target}> ${PROJECT_SOURCE_DIR}/cmake/rename_symbols.cmake
      COMMENT "Symbols of the ${variant} variant")
    set_source_files_properties(${renamed} TARGET_DIRECTORY nanet PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
    target_sources(nanet PRIVATE ${renamed})
    add_dependencies(nanet ${target})
    list(APPEND definitions NANET_SIMD_VARIANTS)
  endforeach()
  list(REMOVE_DUPLICATES definitions)
  set_source_files_properties(src/nanet/rich/simd.cpp TARGET_DIRECTORY nanet PROPERTIES COMPILE_DEFINITIONS "${definitions}")
endfunction()
nanet_add_simd(src/nanet/rich/reconstructors.cpp src/nanet/rich/math_batch.cpp)
