/* fleet_item.h - makes the name of an item in the servers, and ends a request for one. */
#ifndef PST_FLEET_FLEET_ITEM_H
#define PST_FLEET_FLEET_ITEM_H

#include "fleet/fleet.h"

#include "format/format_fleet.h"

struct psti_fleet_server;

struct psti_fleet_name psti_fleet_set_name(const struct psti_fleet_set *set, uint32_t i_shape,
                                           uint64_t sample, uint32_t i_item);
/* Ends a request that is in no list or ring any more. No lock is held. */
void psti_fleet_get_end(struct psti_fleet_server *server, struct psti_fleet_get *get,
                        enum psti_fleet_answer answer);

#endif
