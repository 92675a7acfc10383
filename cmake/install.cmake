# cmake --install: the program, the headers, the library, and what find_package(mobius) needs.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

target_compile_features(mobius PUBLIC cxx_std_20)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/mobius DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp" PATTERN "*_test.hpp" EXCLUDE)
install(TARGETS mobius EXPORT mobius_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/mobius)
install(EXPORT mobius_targets NAMESPACE mobius:: DESTINATION ${config_folder})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/mobiusConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/mobiusConfig.cmake
  INSTALL_DESTINATION ${config_folder})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/mobiusConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/mobiusConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/mobiusConfigVersion.cmake DESTINATION ${config_folder})
