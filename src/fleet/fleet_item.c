/* fleet_item.c - makes the name of an item in the servers, and ends a request for one.
 *
 * Any thread may call both functions. */
#include "fleet/fleet_item.h"

#include "fleet/fleet_int.h"

#include "base/clock.h"

#include <string.h>

struct psti_fleet_name psti_fleet_set_name(const struct psti_fleet_set *set, uint32_t i_shape,
                                           uint64_t sample, uint32_t i_item)
{
    const struct psti_cache_shape *shape = &set->shapes[i_shape];
    struct psti_fleet_name name = {.forms = shape->forms,
                                   .number = sample * shape->n_items + i_item,
                                   .part_nbytes = set->part_nbytes};
    memcpy(name.identity, shape->identity, sizeof name.identity);
    return name;
}

void psti_fleet_get_end(struct psti_fleet_server *server, struct psti_fleet_get *get,
                        enum psti_fleet_answer answer)
{
    int64_t took = psti_clock_ns() - get->state.start_ns;
    get->answer = answer;
    get->is_bad = answer == PSTI_FLEET_DECLINED && get->state.bad;
    psti_latency_end(server->latency, answer == PSTI_FLEET_HIT, get->got_nbytes, took);
    get->done(get);
}
