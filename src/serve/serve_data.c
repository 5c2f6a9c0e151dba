/* serve_data.c - data sets in the service, with the descriptors that a client has sent.
 *
 * Closing a file may wait for its storage: NFS or FUSE may first write data back, or ask their
 * server. So workers close files. This work waits in a few lanes, chosen by the data set's
 * identity: if the storage of one data set does not respond, only the closings in its lane wait. */
#include "serve/serve.h"

#include "base/alloc.h"
#include "dataset/dataset.h"

#include <unistd.h>

static void close_files(struct psti_serve_data *data)
{
    pst_dataset_close(&data->dataset);
    while (data->n_fds > 0)
        if (data->fds[--data->n_fds] >= 0)
            close(data->fds[data->n_fds]);
}

static void run_closing(struct psti_work *work, struct psti_worker *worker)
{
    (void)worker;
    close_files((struct psti_serve_data *)(void *)work);
}

static void closing_is_done(struct psti_post *post)
{
    psti_free((char *)post - offsetof(struct psti_serve_data, closing.post));
}

struct psti_serve_data *psti_serve_data_new(struct psti_message *message, uint32_t first)
{
    struct psti_serve_data *data = psti_calloc(1, sizeof *data);
    if (!data)
        return NULL;
    data->closing.run = run_closing;
    data->closing.post.run = closing_is_done;
    for (uint32_t i = first; i < message->n_fds; i++)
        data->fds[data->n_fds++] = psti_share_message_take_fd(message, i);
    return data;
}

static struct psti_lane *lane_of(pst_service *service, const uint8_t *identity)
{
    return &service->closing[identity ? identity[0] % PSTI_SERVE_CLOSING_LANES : 0];
}

void psti_serve_data_close(pst_service *service, struct psti_serve_data **data_ptr,
                           const uint8_t *identity)
{
    struct psti_serve_data *data = *data_ptr;
    if (!data)
        return;
    *data_ptr = NULL;
    if (!service->ending &&
        psti_serve_submit(service, lane_of(service, identity), &data->closing))
        return;
    close_files(data); /* there are no workers any more, or they have too much work */
    psti_free(data);
}

void psti_serve_message_close(pst_service *service, struct psti_message *message)
{
    uint32_t first = 0;
    while (first < message->n_fds && message->fds[first] < 0)
        first++;
    struct psti_serve_data *data =
        first < message->n_fds ? psti_serve_data_new(message, first) : NULL;
    psti_share_message_close(message); /* if memory was lacking, the message still has
                                          descriptors */
    psti_serve_data_close(service, &data, NULL);
}
