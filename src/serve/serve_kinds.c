/* serve_kinds.c - the kinds of sessions that the service has. */
#include "serve/serve.h"

const struct psti_session_ops *const psti_serve_ops[] = {
    &psti_serve_cache,
    &psti_serve_control,
    NULL,
};
