/* share.h - the interface of this folder for other parts of the library: the client of the host
 * service. */
#ifndef PST_SHARE_SHARE_H
#define PST_SHARE_SHARE_H

#include "share/share_cache.h"
#include "share/share_host.h"
#include "share/share_link.h"
#include "share/share_options.h"
#include "share/share_staging.h"
#include "share/share_stream_wire.h"
#include "share/share_view.h"

#endif
