/* pli_lz_parse.c - cuts an lz unit into literals and copies of the lowest cost.
 *
 * It searches a shortest path over the pixels. Every pixel is reached by a literal or by the end of
 * a copy: from recent offsets, from neighbours, or from pixels found by hash. When a long copy is
 * found, the path up to it is fixed and the copy is taken. This keeps the graph small and makes
 * long copies fast. Only integers are used. Works in the caller's memory. */
#include "pli/encode/lz/pli_lz_int.h"

#include "base/bits.h"

#include <string.h>

enum {
    HASH_LENGTH = 3,
    SURELY = 8 * PSTI_LZ_BIT,
    /* Added to the cost of a copy for its decoding time. Paths with fewer copies are also shorter
     * than the costs estimate. */
    SEQUENCE_PRICE = 4 * PSTI_LZ_BIT,
    CANDIDATES_MAX = 40,
    NOT_REACHED = 0x7fffffff,
    NO_POSITION = 0xffffffff
};

/* Returns whether all 8 pixels from i on equal the pixel before them. */
static bool flat(const uint32_t *ids, uint32_t i)
{
    uint32_t differ = 0;
    for (uint32_t k = i; k < i + 8; k++)
        differ |= ids[k] ^ ids[k - 1];
    return differ == 0;
}

void psti_pli_lz_prepare(const struct psti_lz_pixels *p)
{
    uint32_t n_edges = 0;
    memset(p->to_edge, PSTI_PLI_LZ_EDGE_SHORT, p->n + 4);
    p->edges[0] = 0;
    for (uint32_t i = 1; i < p->n;) {
        if (i + 8 <= p->n && flat(p->ids, i)) {
            for (uint32_t k = 0; k < 8; k++)
                p->edges[i + k] = n_edges;
            i += 8;
            continue;
        }
        if (p->ids[i] != p->ids[i - 1]) {
            n_edges++;
            for (uint32_t less = 0; less < PSTI_PLI_LZ_EDGE_SHORT && less < i; less++)
                p->to_edge[i - less] =
                    (uint8_t)less < p->to_edge[i - less] ? (uint8_t)less : p->to_edge[i - less];
        }
        p->edges[i++] = n_edges;
    }
}

struct candidate {
    uint32_t offset, length;
    uint8_t code;
};

struct parser {
    const struct psti_lz_pixels *pixels;
    const struct psti_lz_effort *effort;
    const struct psti_lz_prices *prices;
    uint32_t near[PSTI_PLI_LZ_N_NEAR]; /* offsets of the neighbours; 0 if a neighbour does not
                                        * exist */
    uint32_t hashed;                   /* number of the first pixel that is not in the hash table
                                        * yet */
    struct candidate candidates[CANDIDATES_MAX];
    uint32_t n_candidates, longest; /* `longest` is the index of the longest candidate */
};

static uint32_t hash(const uint32_t *ids)
{
    uint32_t h = ids[0] * 2654435761u ^ ids[1] * 2246822519u ^ ids[2] * 3266489917u;
    return (h ^ h >> 15) * 2654435761u >> (32 - PSTI_LZ_HASH_BITS);
}

static void insert(struct parser *s, uint32_t at)
{
    const struct psti_lz_pixels *p = s->pixels;
    if (at + HASH_LENGTH > p->n)
        return;
    uint32_t *head = p->heads + hash(p->ids + at);
    p->chain[at] = *head;
    *head = at;
}

/* Returns how many ids from b on equal the ids from a on, at most `max`. */
static uint32_t equal_ids(const uint32_t *a, const uint32_t *b, uint32_t max)
{
    uint32_t i = 0;
    while (i + 16 <= max) {
        uint32_t differ = 0;
        for (uint32_t k = 0; k < 16; k++)
            differ |= a[i + k] ^ b[i + k];
        if (differ != 0)
            break;
        i += 16;
    }
    for (; i + 2 <= max; i += 2) {
        uint64_t differ = psti_load_u64(a + i) ^ psti_load_u64(b + i);
        if (differ != 0)
            return i + (uint32_t)__builtin_ctzll(differ) / 32;
    }
    return i + (i < max && a[i] == b[i]);
}

static void add(struct parser *s, uint32_t at, uint32_t offset, uint32_t code, uint32_t max)
{
    const uint32_t *ids = s->pixels->ids + at;
    struct candidate *c = s->candidates + s->n_candidates;
    if (offset - 1 >= at || ids[0] != ids[-(int64_t)offset])
        return;
    /* After a match of at least `nice` pixels, only longer matches are considered. */
    uint32_t longest = s->n_candidates > 0 ? s->candidates[s->longest].length : 0;
    if (longest >= s->effort->nice &&
        (longest == max || ids[longest] != ids[(int64_t)longest - offset]))
        return;
    c->offset = offset;
    c->code = (uint8_t)code;
    c->length = equal_ids(ids - offset, ids, max);
    if (c->length > longest)
        s->longest = s->n_candidates;
    s->n_candidates++;
}

static void add_by_hash(struct parser *s, uint32_t at, uint32_t max)
{
    const struct psti_lz_pixels *p = s->pixels;
    uint32_t best = s->n_candidates > 0 ? s->candidates[s->longest].length : 0;
    if (best < HASH_LENGTH - 1)
        best = HASH_LENGTH - 1;
    if (best >= max || at + HASH_LENGTH > p->n)
        return;
    uint32_t found = p->heads[hash(p->ids + at)];
    for (uint32_t depth = s->effort->depth; depth > 0 && found != NO_POSITION; depth--) {
        if (p->ids[found + best] == p->ids[at + best]) {
            uint32_t n = s->n_candidates;
            add(s, at, at - found, psti_pli_lz_explicit_code(at - found), max);
            if (s->n_candidates > n && s->candidates[n].length > best)
                best = s->candidates[n].length;
            else
                s->n_candidates = n;
            if (best >= s->effort->nice || best >= max || s->n_candidates == CANDIDATES_MAX)
                return;
        }
        found = p->chain[found];
    }
}

/* Returns a bit for each neighbour of pixel `at` that equals it. There are no branches, because the
 * CPU could predict few of them. */
static uint32_t equal_neighbours(const struct parser *s, uint32_t at)
{
    const uint32_t *ids = s->pixels->ids + at;
    uint32_t which = 0;
    for (uint32_t k = 0; k < PSTI_PLI_LZ_N_NEAR; k++) {
        uint32_t inside = s->near[k] - 1 < at, offset = s->near[k] & (0 - inside);
        which |= (inside & (uint32_t)(ids[-(int64_t)offset] == ids[0])) << k;
    }
    return which;
}

/* Finds the copies that may begin at `at`. If one of them is long enough to be taken at once, the
 * others hardly matter, and the hash table is not used. */
static void find_candidates(struct parser *s, uint32_t at, const uint32_t *recent)
{
    uint32_t max = s->pixels->n - at;
    s->n_candidates = s->longest = 0;
    for (uint32_t k = 0; k < PSTI_PLI_LZ_N_RECENT; k++)
        add(s, at, recent[k], k, max);
    for (uint32_t which = equal_neighbours(s, at); which != 0; which &= which - 1) {
        uint32_t k = (uint32_t)__builtin_ctz(which);
        add(s, at, s->near[k], PSTI_PLI_LZ_N_RECENT + k, max);
    }
    if (s->n_candidates == 0 || s->candidates[s->longest].length < s->effort->nice)
        add_by_hash(s, at, max);
}

/* Returns the token of a copy's length. If the copy ends at an edge, or at most 3 pixels before an
 * edge, and the edge is among the first 12, the token names the edge. Otherwise it is the token of
 * the count. */
static uint32_t length_token(const struct psti_lz_pixels *p, uint32_t at, uint32_t offset,
                             uint32_t length)
{
    uint32_t source = at - offset, end = source + length;
    uint32_t less = p->to_edge[end < p->n ? end : p->n];
    if (less < PSTI_PLI_LZ_EDGE_SHORT && end + less < at) {
        uint32_t n = p->edges[end + less] - p->edges[source] - 1;
        if (n < PSTI_PLI_LZ_EDGE_N)
            return PSTI_PLI_LZ_N_RUNS + less * PSTI_PLI_LZ_EDGE_N + n;
    }
    return psti_pli_lz_count_token(length - 1);
}

static uint32_t count_price(const uint16_t *prices, uint32_t token)
{
    uint32_t raw = token < PSTI_PLI_LZ_N_RUNS ? psti_pli_lz_count_bits(token) : 0;
    return prices[token] + raw * PSTI_LZ_BIT;
}

static void push_recent(uint32_t *recent, uint32_t offset)
{
    if (offset == recent[0])
        return;
    if (offset != recent[1])
        recent[2] = recent[1];
    recent[1] = recent[0];
    recent[0] = offset;
}

static uint32_t offset_price(const struct parser *s, const struct psti_lz_node *node,
                             const struct candidate *c)
{
    uint32_t context = node->run > 0 ? PSTI_PLI_LZ_OFFSET_AFTER_RUN : node->ending;
    uint32_t raw =
        c->code >= PSTI_PLI_LZ_EXPLICIT ? psti_pli_lz_explicit_bits(c->code) * PSTI_LZ_BIT : 0;
    return s->prices->offset[context][c->code] + raw;
}

static void relax_literal(const struct parser *s, struct psti_lz_node *node)
{
    struct psti_lz_node *next = node + 1;
    const uint16_t *run = s->prices->run;
    uint32_t price = node->price + s->prices->literal +
                     count_price(run, psti_pli_lz_count_token(node->run + 1)) -
                     count_price(run, psti_pli_lz_count_token(node->run));
    if (price >= next->price)
        return;
    *next = *node;
    next->price = price;
    next->length = 0;
    next->run = node->run + 1;
}

static void relax_copy(const struct parser *s, uint32_t at, const struct psti_lz_node *node,
                       const struct candidate *c, uint32_t length, uint32_t price)
{
    struct psti_lz_node *next = s->pixels->nodes + (node - s->pixels->nodes) + length;
    uint32_t token = length_token(s->pixels, at, c->offset, length);
    price += count_price(s->prices->length[psti_pli_lz_offset_class(c->code)], token);
    if (price >= next->price)
        return;
    next->price = price;
    next->offset = c->offset;
    memcpy(next->recent, node->recent, sizeof next->recent);
    push_recent(next->recent, c->offset);
    next->length = (uint16_t)length;
    next->run = 0;
    next->code = c->code;
    next->ending = (uint8_t)psti_pli_lz_ending(c->code, token);
}

/* Limits the length of a copy. Where the parser should not yet decide for a long copy, copies are
 * tried only up to this limit. */
static uint32_t shortened(const struct parser *s, uint32_t length)
{
    return length < 2 * s->effort->nice ? length : 2 * s->effort->nice;
}

static void relax_copies(const struct parser *s, uint32_t at, const struct psti_lz_node *node,
                         uint32_t room)
{
    for (uint32_t k = 0; k < s->n_candidates; k++) {
        const struct candidate *c = s->candidates + k;
        uint32_t price =
            node->price + s->prices->run[0] + offset_price(s, node, c) + SEQUENCE_PRICE;
        uint32_t length = shortened(s, c->length);
        length = length < room ? length : room;
        relax_copy(s, at, node, c, length, price);
        uint32_t shorter = length - 1 < s->effort->shorter ? length - 1 : s->effort->shorter;
        for (; shorter > 0; shorter--)
            relax_copy(s, at, node, c, shorter, price);
    }
}

/* Returns the candidate of lowest cost among those with the longest length. */
static const struct candidate *choose_nice(const struct parser *s, const struct psti_lz_node *node)
{
    const struct candidate *best = s->candidates + s->longest;
    uint32_t best_price = offset_price(s, node, best);
    for (uint32_t k = 0; k < s->n_candidates; k++) {
        const struct candidate *c = s->candidates + k;
        uint32_t price = offset_price(s, node, c);
        if (c->length == s->candidates[s->longest].length && price < best_price) {
            best = c;
            best_price = price;
        }
    }
    return best;
}

struct path {
    struct psti_lz_sequence *sequences;
    uint32_t n, at, run; /* number of pixels that are done; and literals since the last copy */
    uint32_t recent[PSTI_PLI_LZ_N_RECENT];
    uint8_t ending;
};

static void emit_copy(const struct parser *s, struct path *path, uint32_t offset, uint32_t length,
                      uint32_t code)
{
    uint32_t token = length_token(s->pixels, path->at, offset, length);
    if (path->n < PSTI_PLI_LZ_SEQUENCES_MAX)
        path->sequences[path->n++] = (struct psti_lz_sequence){
            .run = path->run,
            .offset = offset,
            .length = length,
            .run_token = (uint8_t)psti_pli_lz_count_token(path->run),
            .offset_code = (uint8_t)code,
            .length_token = (uint8_t)token,
        };
    path->run = 0;
    path->at += length;
    path->ending = (uint8_t)psti_pli_lz_ending(code, token);
    push_recent(path->recent, offset);
}

/* Fixes the path of lowest cost up to node `last`. */
static void emit_path(const struct parser *s, struct path *path, uint32_t last)
{
    struct psti_lz_node *nodes = s->pixels->nodes;
    /* Reverses the links: `from` of each node on the path becomes the length of the step that
     * leaves it. */
    uint32_t step = 0;
    for (uint32_t i = last; i > 0;) {
        uint32_t length = nodes[i].length > 0 ? nodes[i].length : 1;
        nodes[i].from = (uint16_t)step;
        step = length;
        i -= length;
    }
    for (uint32_t i = step; i <= last && step > 0;) {
        if (nodes[i].length > 0) {
            emit_copy(s, path, nodes[i].offset, nodes[i].length, nodes[i].code);
        } else {
            path->run++;
            path->at++;
        }
        step = nodes[i].from;
        i += step;
    }
}

/* Returns the lowest cost of the reached nodes after `i`. */
static uint32_t cheapest_behind(const struct psti_lz_node *nodes, uint32_t i, uint32_t reach)
{
    uint32_t least = NOT_REACHED;
    for (uint32_t k = i + 1; k <= reach; k++)
        least = nodes[k].price < least ? nodes[k].price : least;
    return least;
}

/* Parses from path->at up to the next long copy or the end of the graph. */
static void parse_stretch(struct parser *s, struct path *path)
{
    struct psti_lz_node *nodes = s->pixels->nodes;
    uint32_t at = path->at, left = s->pixels->n - at;
    uint32_t end = left < PSTI_LZ_N_NODES - 1 ? left : PSTI_LZ_N_NODES - 1;
    uint32_t reach = 0; /* nodes up to this one are initialised */
    /* The cost of a node includes that of the current run of literals. If another literal lowers
     * the cost of the run, at most the run's cost is subtracted, so no cost falls below 0. */
    nodes[0] = (struct psti_lz_node){
        .price = count_price(s->prices->run, psti_pli_lz_count_token(path->run)),
        .run = path->run,
        .ending = path->ending,
    };
    memcpy(nodes[0].recent, path->recent, sizeof path->recent);
    for (uint32_t i = 0; i < end; i++) {
        for (; s->hashed < at + i; s->hashed++)
            insert(s, s->hashed);
        /* Paths of lower cost pass over this node, so it is hardly on the best path. */
        uint32_t behind = cheapest_behind(nodes, i, reach);
        if (behind <= nodes[i].price)
            continue;
        find_candidates(s, at + i, nodes[i].recent);
        const struct candidate *longest = s->candidates + s->longest;
        if (s->n_candidates > 0 && behind > nodes[i].price + SURELY &&
            (longest->length >= s->effort->nice || longest->length == left - i)) {
            struct candidate nice = *choose_nice(s, nodes + i);
            emit_path(s, path, i);
            emit_copy(s, path, nice.offset, nice.length, nice.code);
            return;
        }
        uint32_t furthest = i + (s->n_candidates > 0 ? shortened(s, longest->length) : 1);
        for (furthest = furthest < end ? furthest : end; reach < furthest;)
            nodes[++reach].price = NOT_REACHED;
        relax_literal(s, nodes + i);
        if (s->n_candidates > 0)
            relax_copies(s, at + i, nodes + i, end - i);
        /* All paths go through this node, so the path up to it is decided. */
        if (reach == i + 1 && i > 256) {
            end = i + 1;
            break;
        }
    }
    emit_path(s, path, end);
}

/* Adds only some of the pixels inside a long copy to the hash table. */
static void skip_hashing(struct parser *s, uint32_t end)
{
    for (; s->hashed < end; s->hashed += s->effort->sparse)
        insert(s, s->hashed);
}

uint32_t psti_pli_lz_parse(const struct psti_lz_pixels *pixels, const struct psti_lz_effort *effort,
                           const struct psti_lz_prices *prices, struct psti_lz_sequence *sequences)
{
    struct parser s = {.pixels = pixels, .effort = effort, .prices = prices};
    struct path path = {
        .sequences = sequences,
        .recent = {1, pixels->width, 2 * pixels->width},
        .ending = PSTI_PLI_LZ_ENDING_FIRST,
    };
    memset(pixels->heads, 0xff, sizeof *pixels->heads << PSTI_LZ_HASH_BITS);
    for (uint32_t k = 0; k < PSTI_PLI_LZ_N_NEAR; k++) {
        int64_t offset = (int64_t)psti_pli_lz_near[k].dy * pixels->width - psti_pli_lz_near[k].dx;
        s.near[k] = offset > 0 ? (uint32_t)offset : 0;
    }
    while (path.at < pixels->n && path.n < PSTI_PLI_LZ_SEQUENCES_MAX) {
        uint32_t before = path.at;
        parse_stretch(&s, &path);
        if (path.at - before > 64)
            skip_hashing(&s, path.at);
    }
    return path.n;
}
