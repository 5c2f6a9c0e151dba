/* serve_stream_answer.h - answers to jobs that share preparation. For the loop's thread. */
#ifndef PST_SERVE_SERVE_STREAM_ANSWER_H
#define PST_SERVE_SERVE_STREAM_ANSWER_H

#include "serve/serve_stream.h"

/* The job may take extents: tells it their layout. */
void psti_serve_job_opened(struct psti_job *job);
/* The job cannot join its group. Its session ends. */
void psti_serve_job_refused(struct psti_job *job, const struct pst_error *err);
/* Gives the job what it wants: n extents of one stream, n at least 1. */
void psti_serve_job_ready(struct psti_job *job, struct psti_serve_extent *const *extents,
                          uint32_t n);
/* The job has to make the batch that it wants itself. */
void psti_serve_job_alone(struct psti_job *job, enum psti_stream_alone reason);

#endif
