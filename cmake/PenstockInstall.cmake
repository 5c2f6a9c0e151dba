# The files that `cmake --install` installs: the library, its headers, penstock.pc, the CMake package, the program with its manual
# pages, its completion and its systemd unit. Included last.
if(NOT PST_INSTALL)
  return()
endif()
include(CMakePackageConfigHelpers)

# Two export sets: users of the shared library need not have the codecs' development files.
install(TARGETS penstock EXPORT penstockTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS penstock_static EXPORT penstockStaticTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/penstock DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/python/LICENSE.kissfft DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(TARGET penstock_cli)
  # The program finds the library beside it, wherever the tree is put.
  file(RELATIVE_PATH bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(penstock_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
  install(TARGETS penstock_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  pst_cli_pages(${CMAKE_INSTALL_MANDIR} ${CMAKE_INSTALL_DATADIR})
  # systemd looks there for units of users, whatever the libraries' directory is called. The unit names the program by its
  # whole path, which is known only when it is installed.
  install(CODE "set(unit_bindir \"${CMAKE_INSTALL_BINDIR}\")
set(unit_source \"${CMAKE_CURRENT_LIST_DIR}/penstock.service.in\")
set(unit \"${PROJECT_BINARY_DIR}/package/penstock.service\")")
  install(CODE [[
    set(PST_UNIT_BINDIR "${unit_bindir}")
    if(NOT IS_ABSOLUTE "${PST_UNIT_BINDIR}")
      set(PST_UNIT_BINDIR "${CMAKE_INSTALL_PREFIX}/${unit_bindir}")
    endif()
    configure_file("${unit_source}" "${unit}" @ONLY)
    file(INSTALL DESTINATION "${CMAKE_INSTALL_PREFIX}/lib/systemd/user" TYPE FILE FILES "${unit}")
  ]])
endif()

if(TARGET penstock_cuda)
  install(TARGETS penstock_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/penstock)
set(private_pc libjpeg libpng zlib)
set(DEFLATE_FOUND TRUE) # or there would be no build
set(PST_DEFLATE_MODULES libdeflate)
set(private_modules "")
set(static_targets "")
set(PST_WEBP_MODULES libwebp libwebpdemux)
set(PST_URING_MODULES liburing)
foreach(found DEFLATE WEBP URING)
  if(${found}_FOUND)
    string(REPLACE ";" " " modules "${PST_${found}_MODULES}")
    string(APPEND private_modules "pkg_check_modules(${found} QUIET IMPORTED_TARGET ${modules})\n")
    list(APPEND static_targets PkgConfig::${found})
    list(APPEND private_pc ${PST_${found}_MODULES})
  endif()
endforeach()
string(REPLACE ";" ", " PST_PC_REQUIRES_PRIVATE "${private_pc}")
set(PST_STATIC_MODULES "${private_modules}")
string(REPLACE ";" " " PST_STATIC_TARGETS "${static_targets}")
foreach(dir LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${dir}}")
    set(PST_PC_${dir} "${CMAKE_INSTALL_${dir}}")
  else()
    set(PST_PC_${dir} "\${prefix}/${CMAKE_INSTALL_${dir}}")
  endif()
endforeach()

# The package may be moved as a whole: its prefix is derived from the place of penstock.pc.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(PST_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
else()
  file(RELATIVE_PATH up "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
  string(REGEX REPLACE "/$" "" up "${up}")
  set(PST_PC_PREFIX "\${pcfiledir}/${up}")
endif()

configure_file(${CMAKE_CURRENT_LIST_DIR}/penstock.pc.in ${PROJECT_BINARY_DIR}/package/penstock.pc @ONLY)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/penstockConfig.cmake.in
  ${PROJECT_BINARY_DIR}/package/penstockConfig.cmake INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/penstockConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/penstock.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${PROJECT_BINARY_DIR}/package/penstockConfig.cmake
  ${PROJECT_BINARY_DIR}/package/penstockConfigVersion.cmake DESTINATION ${package_dir})
install(EXPORT penstockTargets NAMESPACE penstock:: DESTINATION ${package_dir})
install(EXPORT penstockStaticTargets NAMESPACE penstock:: DESTINATION ${package_dir})
