# The table of families, made from the names of this folder's files: models/llama.cpp defines family_llama(). A missing one is a
# link error. Model files are built in batches of six (a few large translation units compile far faster than many small ones).
set(families ${sources})
list(FILTER families EXCLUDE REGEX "/families\\.cpp$")
set(declarations "")
set(rows "")
foreach(path ${families})
  get_filename_component(family ${path} NAME_WE)
  string(APPEND declarations "namespace models { Family family_${family}(); }\n")
  string(APPEND rows "  add(\"${family}\", models::family_${family}());\n")
endforeach()
configure_file(${folder}/family_table.cpp.in ${PROJECT_BINARY_DIR}/generated/family_table.cpp @ONLY)
target_sources(${target} PRIVATE ${PROJECT_BINARY_DIR}/generated/family_table.cpp)
if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
  target_compile_options(${target} PRIVATE -O1)  # building graphs is not hot
endif()
