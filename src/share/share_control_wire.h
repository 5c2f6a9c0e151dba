/* share_control_wire.h - the messages of a control session (status, saving, loading, clearing,
 * stopping). */
#ifndef PST_SHARE_SHARE_CONTROL_WIRE_H
#define PST_SHARE_SHARE_CONTROL_WIRE_H

#include "share/share_wire.h"

#include <penstock/cache.h>
#include <penstock/service.h>

enum {
    PSTI_STATUS_NBYTES_MAX = 16 << 20, /* largest blob with a status */
    PSTI_STATUS_SETS_MAX = 4096,
    PSTI_STATUS_SESSIONS_MAX = 4096
};

/* PSTI_MESSAGE_STATUS_IS comes with a blob that lists the service, then its sets, then its
 * sessions. */
void psti_share_put_status(struct psti_wire_out *out, const struct pst_service_status *status);
void psti_share_get_status(struct psti_wire_in *in, struct pst_service_status *status);
void psti_share_put_status_set(struct psti_wire_out *out, const struct pst_service_set *set);
void psti_share_get_status_set(struct psti_wire_in *in, struct pst_service_set *set);
void psti_share_put_status_session(struct psti_wire_out *out,
                                   const struct pst_service_session *session);
void psti_share_get_status_session(struct psti_wire_in *in, struct pst_service_session *session);

/* PSTI_MESSAGE_FILE_IS answers SAVE and LOAD, whose body is one text: an absolute path. */
void psti_share_put_file_report(struct psti_wire_out *out,
                                const struct pst_cache_file_report *report);
void psti_share_get_file_report(struct psti_wire_in *in, struct pst_cache_file_report *report);

#endif
