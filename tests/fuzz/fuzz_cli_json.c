/* fuzz_cli_json.c - parses any bytes as the JSON of the command line: they are refused with a line
 * number, or give a tree whose nodes are in order. */
#include "../../tools/penstock/json_read.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes);

/* Aborts if a list or an object has another number of children than it states. */
static void check(const struct json_node *node)
{
    uint32_t n = 0;
    for (const struct json_node *child = node->first; child != NULL; child = child->next, n++) {
        if ((child->key != NULL) != (node->kind == JSON_OBJECT) || child <= node)
            abort();
        check(child);
    }
    if (n != node->n || (node->kind == JSON_TEXT) != (node->text != NULL))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    struct pst_error err;
    if (nbytes > 1 << 16)
        return 0;
    char *text = malloc(nbytes + 1);
    struct json_node *nodes = calloc(JSON_NODES(nbytes), sizeof *nodes);
    if (text != NULL && nodes != NULL) {
        memcpy(text, bytes, nbytes);
        text[nbytes] = '\0';
        pst_error_clear(&err);
        if (json_read(text, nbytes, nodes, &err) == PST_OK)
            check(&nodes[0]);
        else if (strncmp(err.text, "line ", 5) != 0)
            abort();
    }
    free(nodes);
    free(text);
    return 0;
}
