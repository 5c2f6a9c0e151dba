/* test_containers_tree.c - are JSON and YAML read as other parsers read them, and is all else
 * refused? */
#include "test.h"

#include "containers/list/containers_tree.h"

#include <stdlib.h>
#include <string.h>

/* Writes a tree as one line: {a: 1, b: [x, "y"]}. Quoted scalars keep their quotes, plain ones have
 * none. */
static void print_node(const struct psti_tree *tree, const struct psti_tree_node *node, char *out,
                       size_t capacity)
{
    size_t n = strlen(out);
    if (node->key != NULL) {
        snprintf(out + n, capacity - n, "%s: ", node->key);
        n = strlen(out);
    }
    if (node->kind == PSTI_TREE_SCALAR) {
        const char *quote = node->is_plain ? "" : "\"";
        snprintf(out + n, capacity - n, "%s%s%s", quote, node->text, quote);
        return;
    }
    snprintf(out + n, capacity - n, "%s", node->kind == PSTI_TREE_MAP ? "{" : "[");
    for (const struct psti_tree_node *entry = psti_containers_tree_first(tree, node); entry != NULL;
         entry = psti_containers_tree_next(tree, entry)) {
        print_node(tree, entry, out, capacity);
        if (entry->next != 0)
            snprintf(out + strlen(out), capacity - strlen(out), ", ");
    }
    n = strlen(out);
    snprintf(out + n, capacity - n, "%s", node->kind == PSTI_TREE_MAP ? "}" : "]");
}

typedef enum pst_status (*reader)(struct psti_tree *tree, const char *path, const char *bytes,
                                  size_t nbytes, struct pst_error *err);

static void assert_reads(reader read, const char *text, const char *want)
{
    struct psti_tree tree;
    struct pst_error err;
    char got[4096] = "";
    size_t n = strlen(text);
    char *bytes = malloc(n + 1); /* exact size, so a sanitizer detects reads behind the end */
    assert_non_null(bytes);
    memcpy(bytes, text, n);
    assert_ok(read(&tree, "a.yaml", bytes, n, &err));
    print_node(&tree, tree.nodes, got, sizeof got);
    assert_string_equal(got, want);
    psti_containers_tree_free(&tree);
    free(bytes);
}

static void assert_refuses(reader read, const char *text, const char *cause)
{
    struct psti_tree tree;
    struct pst_error err;
    assert_int_equal(read(&tree, "a.yaml", text, strlen(text), &err), PST_ERROR_CORRUPT);
    if (strstr(err.text, cause) == NULL)
        print_error("%s\nsays: %s\n", text, err.text);
    assert_non_null(strstr(err.text, cause));
    assert_null(tree.nodes);
}

static void json_keeps_texts_and_order(void **state)
{
    (void)state;
    reader json = psti_containers_tree_json;
    assert_reads(json, "{\"b\": [1, -2.5e3, true, null], \"a\": {}, \"\": \"\"}",
                 "{b: [1, -2.5e3, true, null], a: {}, : \"\"}");
    assert_reads(json, "\n [ ] ", "[]");
    assert_reads(json, "7", "7");
    assert_reads(json, "\"\\u00e9\\ud83d\\ude00\\n\\\\\\\"/\"", "\"é😀\n\\\"/\"");
    assert_reads(json, "[[[\"x\"], [2]], {\"k\": [{\"l\": 3}]}]",
                 "[[[\"x\"], [2]], {k: [{l: 3}]}]");
    assert_refuses(json, "{\"a\": 1", "the JSON");
    assert_refuses(json, "[\n\"\\u0000\"]", "line 2: a text holds NUL");
    assert_refuses(json, "[\"\\ud800\"]", "half a surrogate pair");
}

static void yaml_of_dump_is_read(void **state)
{
    (void)state;
    reader yaml = psti_containers_tree_yaml;
    assert_reads(yaml,
                 "exclude: []\nsplit_parts:\n  test:\n  - shards/3.tar\n  train:\n"
                 "  - shards/0.tar\n  - shards/1.tar\n  val: []\n",
                 "{exclude: [], split_parts: {test: [shards/3.tar], "
                 "train: [shards/0.tar, shards/1.tar], val: []}}");
    assert_reads(yaml,
                 "# made by hand\n---\nsample_type:\n  __module__: megatron.energon\n"
                 "  __class__: CaptioningSample   # never run\n\nfield_map:\n"
                 "    image: jpg\n    caption: json[caption]\n",
                 "{sample_type: {__module__: megatron.energon, __class__: CaptioningSample}, "
                 "field_map: {image: jpg, caption: json[caption]}}");
    assert_reads(yaml,
                 "a: [x, 'y,z', \"\\u00e9\\t\", [1,\n   2], # c\n  {k: v, l: , m: {}},]\nb: ~",
                 "{a: [x, \"y,z\", \"é\t\", [1, 2], {k: v, l: , m: {}}], b: ~}");
    assert_reads(yaml, "'it''s': \"a: b # c\"\n\"k\\\"\" : 'x'\n",
                 "{it's: \"a: b # c\", k\": \"x\"}");
    assert_reads(yaml, "- a: 1\n  b: 2\n- - x\n  - y\n-\n  k:\n  - z\n-\n- w\n",
                 "[{a: 1, b: 2}, [x, y], {k: [z]}, , w]");
    assert_reads(yaml, "a:\nb:\r\n  c: d e\r\n", "{a: , b: {c: d e}}");
    assert_reads(yaml, "a: shard_{000..099}.tar\nb: x#y\nc: http://h\nd: -1\ne: a:b\n",
                 "{a: shard_{000..099}.tar, b: x#y, c: http://h, d: -1, e: a:b}");
    assert_reads(yaml, "", "");
    assert_reads(yaml, "# nothing\n", "");
    assert_reads(yaml, "plain text", "plain text");
    assert_reads(yaml, "[]", "[]");
    assert_reads(yaml,
                 "\xef\xbb\xbf"
                 "a: {\"b\":1}",
                 "{a: {b: 1}}");
}

static void yaml_that_is_not_read_names_its_line(void **state)
{
    (void)state;
    reader yaml = psti_containers_tree_yaml;
    assert_refuses(yaml, "a: 1\nb: &x 2\n", "line 2: anchors");
    assert_refuses(yaml, "a: !!python/object:os.system x\n", "line 1: anchors, aliases and tags");
    assert_refuses(yaml, "a: |\n  text\n", "line 1: texts of several lines");
    assert_refuses(yaml, "a: b\n  c\n", "line 2: the line is indented deeper");
    assert_refuses(yaml, "a: b: c\n", "line 1: more text");
    assert_refuses(yaml, "a:\n\t- x\n", "line 2: a tab");
    assert_refuses(yaml, "a: 'x\n", "line 1: a quoted text does not end");
    assert_refuses(yaml, "a: \"\\q\"\n", "line 1: an unknown escape");
    assert_refuses(yaml, "a: 1\n---\nb: 2\n", "line 2: the file goes on");
    assert_refuses(yaml, "a: [1, 2\n", "a comma or a closing bracket");
    assert_refuses(yaml, "a: [1,\n", "the file ends where a value");
    assert_refuses(yaml, "a: 1\n- b\n", "line 2: a key with a colon");
    assert_refuses(yaml, "- a\nb: 1\n", "line 2: the line belongs to nothing");
    assert_refuses(yaml, "? a\n: b\n", "line 1: a value is expected");
    assert_refuses(yaml, "a: 1\n b: 2\n", "line 2: the line is indented deeper");
    assert_refuses(yaml, "  a: 1\nb: 2\n", "line 2: the line belongs to nothing");
    assert_refuses(yaml, "a: \001\n", "line 1: the text holds a control character");
    assert_refuses(yaml, "a: \xff\n", "not UTF-8");
    assert_refuses(yaml, "%YAML 1.2\n", "line 1: directives");
    assert_refuses(yaml, "a: [x: y]\n", "line 1: a comma");
    char deep[300];
    memset(deep, '[', 200);
    deep[200] = '\0';
    assert_refuses(yaml, deep, "nested deeper than 64");
    for (int i = 0; i < 200; i += 2)
        memcpy(deep + i, "- ", 3);
    assert_refuses(yaml, deep, "nested deeper than 64");
}

static void entries_are_found_once(void **state)
{
    (void)state;
    struct psti_tree tree;
    struct pst_error err;
    const struct psti_tree_node *node;
    int64_t number;
    static const char text[] = "a: 12\nb: '12'\na: 3\nc: 9223372036854775808\nd: -1\ne:\nf: null\n";
    assert_ok(psti_containers_tree_yaml(&tree, "a.yaml", text, sizeof text - 1, &err));
    assert_int_equal(psti_containers_tree_entry(&tree, tree.nodes, "a", &node, &err),
                     PST_ERROR_CORRUPT);
    assert_string_equal(err.text, "line 3: \"a\" stands twice in its map");
    assert_ok(psti_containers_tree_entry(&tree, tree.nodes, "x", &node, &err));
    assert_null(node);
    assert_true(psti_containers_tree_number(&tree.nodes[1], &number));
    assert_int_equal(number, 12);
    static const char *const no_numbers[] = {"b", "c", "d", "e"};
    for (int i = 0; i < 4; i++) {
        assert_ok(psti_containers_tree_entry(&tree, tree.nodes, no_numbers[i], &node, &err));
        assert_false(psti_containers_tree_number(node, &number));
        assert_int_equal(psti_containers_tree_is_null(node), i == 3);
    }
    assert_ok(psti_containers_tree_entry(&tree, tree.nodes, "f", &node, &err));
    assert_true(psti_containers_tree_is_null(node));
    assert_int_equal(psti_containers_tree_entry(&tree, node, "x", &node, &err), PST_ERROR_CORRUPT);
    psti_containers_tree_free(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_keeps_texts_and_order),
        cmocka_unit_test(yaml_of_dump_is_read),
        cmocka_unit_test(yaml_that_is_not_read_names_its_line),
        cmocka_unit_test(entries_are_found_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
