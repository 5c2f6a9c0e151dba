/* encode.h - the workshop's door is public: <penstock/pli.h> (pst_pli_encode). Working memory comes
 * from base/alloc.h; this is offline work. */
#ifndef PST_ENCODE_ENCODE_H
#define PST_ENCODE_ENCODE_H

#include <penstock/pli.h>

#endif
