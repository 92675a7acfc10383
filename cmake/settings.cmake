# Compiler settings that hold for every target of this project.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# For what handles graphs, which are small, and for tests: compiled in half the time, and a little slower.
set(MOBIUS_BRIEF "")
if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(MOBIUS_BRIEF -O1)
endif()
# Under sanitizers tests are not optimised at all: what they call is, and compiling them would take longer than running them.
set(MOBIUS_TEST_OPTIONS ${MOBIUS_BRIEF})
if(MOBIUS_SANITIZE)
  set(MOBIUS_TEST_OPTIONS -O0)
endif()

add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports false positives of these inside the standard library at -O2.
  add_compile_options(-Wno-restrict -Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread -Wno-free-nonheap-object)
endif()

if(MOBIUS_SANITIZE)
  add_compile_options(-fsanitize=${MOBIUS_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${MOBIUS_SANITIZE})
endif()
if(MOBIUS_VERIFY)
  add_compile_definitions(MOBIUS_VERIFY=1)
endif()
