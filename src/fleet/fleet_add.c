/* fleet_add.c - adds items to a server, part after part. If the server refuses a part, the item's
 * other parts are removed again. Only for the thread that talks to the server. */
#include "fleet/fleet_int.h"
#include "fleet/fleet_item.h"
#include "fleet/fleet_ring.h"

#include <string.h>

/* Fills in the members that all requests for a part have. */
static struct psti_fleet_request request_for(struct psti_fleet_fill *fill, uint32_t part,
                                             char key[PSTI_FLEET_KEY_CAP])
{
    const struct psti_fleet_offer *offer = &fill->offer;
    const struct psti_fleet_name name =
        psti_fleet_set_name(fill->set, offer->i_shape, offer->sample, offer->i_item);
    return (struct psti_fleet_request){.part = part,
                                       .user = fill,
                                       .key = key,
                                       .key_nbytes = psti_format_fleet_key(&name, part, key)};
}

static void send_part(struct psti_fleet_talk *talk, struct psti_fleet_fill *fill)
{
    char key[PSTI_FLEET_KEY_CAP];
    uint8_t head[PSTI_FLEET_HEADER_NBYTES];
    uint64_t each = fill->set->part_nbytes, offset = fill->n_sent * each;
    uint64_t left = fill->offer.nbytes - offset;
    const struct psti_fleet_part part = {.key_hash = fill->key_hash,
                                         .nbytes = fill->offer.nbytes,
                                         .offset = offset,
                                         .part = fill->n_sent,
                                         .part_nbytes = (uint32_t)(left < each ? left : each),
                                         .form = fill->offer.form};
    struct psti_fleet_request request = request_for(fill, fill->n_sent, key);
    request.command = PSTI_FLEET_ADD;
    request.head = head;
    request.bytes = (const uint8_t *)fill->offer.bytes + offset;
    request.nbytes = part.part_nbytes;
    psti_format_fleet_print(&part, request.bytes, head);
    fill->n_open++;
    if (++fill->n_sent == fill->n_parts)
        talk->adding = NULL;
    psti_fleet_wire_ask(&talk->wire, &request);
}

static void send_removal(struct psti_fleet_talk *talk, struct psti_fleet_fill *fill)
{
    char key[PSTI_FLEET_KEY_CAP];
    struct psti_fleet_request request = request_for(fill, fill->n_removed, key);
    request.command = PSTI_FLEET_REMOVE;
    fill->n_open++;
    if (++fill->n_removed == fill->n_sent)
        talk->n_removing--;
    psti_fleet_wire_ask(&talk->wire, &request);
}

bool psti_fleet_add_part(struct psti_fleet_server *server)
{
    struct psti_fleet_talk *talk = &server->talk;
    if (talk->adding) {
        send_part(talk, talk->adding);
        return true;
    }
    if (talk->n_removing == 0)
        return false;
    struct psti_fleet_fill *fill = talk->fills;
    while (!fill->removes || fill->n_removed == fill->n_sent)
        fill = fill->next;
    send_removal(talk, fill);
    return true;
}

void psti_fleet_add_begin(struct psti_fleet_server *server, struct psti_fleet_fill *fill)
{
    struct psti_fleet_talk *talk = &server->talk;
    fill->next = talk->fills;
    talk->fills = talk->adding = fill;
}

static void count_outcome(struct psti_fleet_server *server, const struct psti_fleet_fill *fill,
                          enum psti_fleet_outcome outcome)
{
    struct psti_fleet_counters *n = &server->counters;
    pthread_mutex_lock(&server->lock);
    n->n_added += outcome == PSTI_FLEET_ADDED;
    n->nbytes_added += outcome == PSTI_FLEET_ADDED ? fill->offer.nbytes : 0;
    n->n_present += outcome == PSTI_FLEET_PRESENT;
    n->n_full += outcome == PSTI_FLEET_FULL;
    n->n_dropped += outcome == PSTI_FLEET_LOST;
    server->n_full_in_row = outcome == PSTI_FLEET_FULL ? server->n_full_in_row + 1 : 0;
    pthread_mutex_unlock(&server->lock);
}

static void end_fill(struct psti_fleet_server *server, struct psti_fleet_fill *fill,
                     enum psti_fleet_outcome outcome)
{
    struct psti_fleet_fill **at = &server->talk.fills;
    while (*at != fill)
        at = &(*at)->next;
    *at = fill->next;
    count_outcome(server, fill, outcome);
    psti_fleet_fill_end(fill, outcome);
}

void psti_fleet_add_answered(struct psti_fleet_server *server, const struct psti_fleet_slot *slot,
                             enum psti_fleet_said said)
{
    struct psti_fleet_talk *talk = &server->talk;
    struct psti_fleet_fill *fill = slot->user;
    fill->n_open--;
    if (slot->command == PSTI_FLEET_ADD) {
        fill->is_added |= said == PSTI_FLEET_SAID_DONE;
        fill->is_full |= said == PSTI_FLEET_SAID_NO_ROOM;
    }
    if (fill->is_full && talk->adding == fill)
        talk->adding = NULL; /* the remaining parts would be useless */
    if (fill->n_open > 0 || talk->adding == fill)
        return;
    if (fill->is_full && fill->is_added && !fill->removes) {
        fill->removes = true;
        talk->n_removing++;
    }
    if (!fill->removes || fill->n_removed == fill->n_sent)
        end_fill(server, fill,
                 fill->is_full    ? PSTI_FLEET_FULL
                 : fill->is_added ? PSTI_FLEET_ADDED
                                  : PSTI_FLEET_PRESENT);
}

void psti_fleet_add_end_all(struct psti_fleet_server *server)
{
    struct psti_fleet_talk *talk = &server->talk;
    talk->adding = NULL;
    talk->n_removing = 0;
    while (talk->fills)
        end_fill(server, talk->fills, PSTI_FLEET_LOST);
}
