# The project's version, for the one file that states it.
set_source_files_properties(${folder}/version.cpp PROPERTIES COMPILE_DEFINITIONS "MOBIUS_VERSION=\"${PROJECT_VERSION}\"")
