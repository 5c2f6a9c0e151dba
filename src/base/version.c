/* version.c - the library's version, as compiled. */
#include <penstock/penstock.h>

#define TEXT_OF(x) #x
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *pst_version(void)
{
    return VERSION_TEXT(PST_VERSION_MAJOR, PST_VERSION_MINOR, PST_VERSION_PATCH);
}
