/* serve_stream_answer.h - answers to jobs that share preparation. For the loop's thread. */
#ifndef PST_SERVE_SERVE_STREAM_ANSWER_H
#define PST_SERVE_SERVE_STREAM_ANSWER_H

#include "serve/serve_stream.h"

/* Tells the job that it may take extents, and their layout. */
void psti_serve_job_opened(struct psti_job *job);
/* Tells the job that it cannot join its group. Its session ends. */
void psti_serve_job_refused(struct psti_job *job, const struct pst_error *err);
/* Sends the job the n extents of its batch, at least 1. All belong to one stream. */
void psti_serve_job_ready(struct psti_job *job, struct psti_serve_extent *const *extents,
                          uint32_t n);
/* Tells the job to prepare by itself the batch that it asked for. */
void psti_serve_job_alone(struct psti_job *job, enum psti_stream_alone reason);

#endif
