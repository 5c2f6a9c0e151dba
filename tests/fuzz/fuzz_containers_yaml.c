/* fuzz_containers_yaml.c - parses any bytes as YAML: the tree contains each node once, and its
 * texts lie in its memory. Scalars are also tried as brace lists and patterns, as they are used for
 * Energon. */
#include "containers/list/containers_pattern.h"
#include "containers/list/containers_tree.h"

#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

static void check_text(const struct psti_tree *tree, const char *text)
{
    if (text[0] == '\0')
        return;
    CHECK(text >= tree->text && text < tree->text + tree->n_text);
    CHECK(memchr(text, '\0', (size_t)(tree->text + tree->n_text - text)) != NULL);
}

static void try_pattern(const char *text)
{
    struct psti_container_names names = {0};
    struct pst_error err = {0};
    if (psti_containers_braces(text, 1000, &names, &err) == PST_OK)
        CHECK(names.n >= 1 && names.n <= 1000);
    else
        CHECK(err.text[0] != '\0');
    for (size_t i = 0; i < names.n; i++)
        (void)psti_containers_matches(names.at[i], text);
    psti_containers_paths_free(&names);
}

/* Counts this node and all nodes below it. */
static size_t check_node(const struct psti_tree *tree, const struct psti_tree_node *node, int depth)
{
    size_t n = 1;
    CHECK(depth <= PSTI_TREE_MAX_DEPTH + 1);
    CHECK(node->kind == PSTI_TREE_SCALAR || node->text[0] == '\0');
    check_text(tree, node->text);
    if (node->kind == PSTI_TREE_SCALAR)
        try_pattern(node->text);
    for (const struct psti_tree_node *entry = psti_containers_tree_first(tree, node); entry != NULL;
         entry = psti_containers_tree_next(tree, entry)) {
        CHECK((entry->key != NULL) == (node->kind == PSTI_TREE_MAP));
        if (entry->key != NULL)
            check_text(tree, entry->key);
        n += check_node(tree, entry, depth + 1);
    }
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct psti_tree tree;
    struct pst_error err = {0};
    if (psti_containers_tree_yaml(&tree, "a.yaml", (const char *)data, nbytes, &err) != PST_OK) {
        CHECK(err.text[0] != '\0' && tree.nodes == NULL);
        return 0;
    }
    CHECK(tree.n_text <= tree.text_capacity);
    CHECK(check_node(&tree, tree.nodes, 0) == tree.n);
    psti_containers_tree_free(&tree);
    return 0;
}
