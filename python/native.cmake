# The target _native, the extension module: for the package (CMakeLists.txt beside this) and, with the flags of a preset, for
# the tests (tests/python). One binary for every CPython >= 3.11.
file(GLOB native_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/native/*.c)
python_add_library(_native MODULE USE_SABI 3.11 WITH_SOABI ${native_sources})
set_target_properties(_native PROPERTIES C_STANDARD 17 C_VISIBILITY_PRESET hidden)
target_include_directories(_native PRIVATE ${CMAKE_CURRENT_LIST_DIR}/../src) # of the few headers that check_rooms.py lets it see
target_compile_definitions(_native PRIVATE _GNU_SOURCE)
target_compile_options(_native PRIVATE -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla)
if(PST_WERROR)
  target_compile_options(_native PRIVATE -Werror)
endif()
if(PST_SANITIZE STREQUAL "address")
  target_compile_options(_native PRIVATE -fsanitize=address,undefined -fno-omit-frame-pointer)
  target_link_options(_native PRIVATE -fsanitize=address,undefined)
endif()
if(NOT PENSTOCK_PYTHON_LIBRARY)
  set(PENSTOCK_PYTHON_LIBRARY penstock_static)
endif()
target_link_libraries(_native PRIVATE ${PENSTOCK_PYTHON_LIBRARY})
# Nothing of the libraries built in is seen by, or taken from, others in the process.
set(map ${CMAKE_CURRENT_LIST_DIR}/native.map)
set_target_properties(_native PROPERTIES LINK_DEPENDS ${map})
target_link_options(_native PRIVATE -Wl,--version-script=${map})
