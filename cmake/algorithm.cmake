# SPDX-License-Identifier: Apache-2.0
# nanet_add_algorithm(NAME HEADER [CUDA AUTO|ON|OFF]): builds an algorithm header (docs/writing-algorithms.md) into the plug-in
# NAME.so, for `--algorithm path/to/NAME.so`. AUTO: with CUDA if the project enables that language.
# Takes nanet_INCLUDE_DIR and nanet_VERSION.
include(${CMAKE_CURRENT_LIST_DIR}/plugin_build_id.cmake)
nanet_plugin_build_id(${nanet_INCLUDE_DIR} ${nanet_VERSION} NANET_PLUGIN_BUILD_ID nanet_plugin_headers)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${nanet_plugin_headers})

function(nanet_add_algorithm name header)
  cmake_parse_arguments(arg "" "CUDA" "" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS OR (arg_CUDA AND NOT arg_CUDA MATCHES "^(AUTO|ON|OFF)$"))
    message(FATAL_ERROR "nanet_add_algorithm(${name} ${header} ${ARGN}): takes NAME HEADER [CUDA AUTO|ON|OFF]")
  endif()
  get_filename_component(header ${header} ABSOLUTE)
  if(NOT EXISTS ${header})
    message(FATAL_ERROR "nanet_add_algorithm(${name}): there is no ${header}")
  endif()
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(arg_CUDA STREQUAL "ON" AND NOT CUDA IN_LIST languages)
    message(FATAL_ERROR "nanet_add_algorithm(${name} CUDA ON): the project has no CUDA; say project(... LANGUAGES CXX CUDA)")
  endif()
  set(with_cuda OFF)
  if(CUDA IN_LIST languages AND NOT arg_CUDA STREQUAL "OFF")
    set(with_cuda ON)
  elseif(NOT arg_CUDA STREQUAL "OFF")
    message(STATUS "nanet_add_algorithm(${name}): without CUDA, for the CPU only")
  endif()

  set(stem ${CMAKE_CURRENT_BINARY_DIR}/${name}_algorithm)
  file(CONFIGURE OUTPUT ${stem}.cpp CONTENT "#define NANET_PLUGIN_CPU\n#include \"${header}\"\n")
  add_library(${name} MODULE ${stem}.cpp)
  set_target_properties(${name} PROPERTIES PREFIX "" SUFFIX .so CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_include_directories(${name} PRIVATE $<TARGET_PROPERTY:nanet::nanet,INTERFACE_INCLUDE_DIRECTORIES>)
  # No floating-point contraction: CPU and GPU round alike.
  target_compile_options(${name} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off;-fno-math-errno;-fno-trapping-math;-Wno-psabi>")
  target_compile_definitions(${name} PRIVATE NANET_PLUGIN_BUILD_ID="${NANET_PLUGIN_BUILD_ID}")
  # Exports only the plug-in's two symbols. Hides the C++ library too, in case the compiler links it
  # statically.
  file(CONFIGURE OUTPUT ${stem}.map CONTENT "{ global: nanet_algorithm; nanet_algorithm_needs; local: *; };\n")
  target_link_options(${name} PRIVATE LINKER:--exclude-libs,ALL LINKER:--version-script=${stem}.map)
  if(with_cuda)
    file(CONFIGURE OUTPUT ${stem}.cu CONTENT "#define NANET_PLUGIN_CUDA\n#include \"${header}\"\n")
    target_sources(${name} PRIVATE ${stem}.cu)
    set_target_properties(${name} PROPERTIES CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_RUNTIME_LIBRARY Static
      CUDA_VISIBILITY_PRESET hidden)
    target_compile_options(${name} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-fmad=false;-Werror=cross-execution-space-call;-Xcompiler=-ffp-contract=off>")
    target_compile_definitions(${name} PRIVATE NANET_PLUGIN_WITH_CUDA)
  endif()
endfunction()
