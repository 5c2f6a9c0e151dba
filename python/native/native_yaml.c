/* native_yaml.c - a simple subset of YAML, parsed by the reader that containers/ uses.
 *
 * In: the bytes of an untrusted file. Out: nested tuples (kind, line, value), where kind is "map"
 * with a list of (key, node), "list" with a list of nodes, or "plain" or "quoted" with a text. The
 * caller decides what a text means. A tree is nested at most 64 deep.
 */
#include "native.h"

#include "containers/list/containers_tree.h"

static PyObject *to_python(const struct psti_tree *tree, const struct psti_tree_node *node);

static int add_entry(const struct psti_tree *tree, const struct psti_tree_node *entry, bool is_map,
                     PyObject *list)
{
    PyObject *value = to_python(tree, entry);
    PyObject *item = value != NULL && is_map ? Py_BuildValue("(sN)", entry->key, value) : value;
    int status = item == NULL ? -1 : PyList_Append(list, item);
    Py_XDECREF(item);
    return status;
}

static PyObject *to_python(const struct psti_tree *tree, const struct psti_tree_node *node)
{
    if (node->kind == PSTI_TREE_SCALAR)
        return Py_BuildValue("(sIs)", node->is_plain ? "plain" : "quoted", (unsigned)node->line,
                             node->text);
    bool is_map = node->kind == PSTI_TREE_MAP;
    PyObject *list = PyList_New(0);
    if (list == NULL)
        return NULL;
    for (const struct psti_tree_node *entry = psti_containers_tree_first(tree, node); entry != NULL;
         entry = psti_containers_tree_next(tree, entry))
        if (add_entry(tree, entry, is_map, list) < 0) {
            Py_DECREF(list);
            return NULL;
        }
    return Py_BuildValue("(sIN)", is_map ? "map" : "list", (unsigned)node->line, list);
}

PyObject *native_yaml_tree(PyObject *module, PyObject *args)
{
    (void)module;
    const char *bytes, *path;
    Py_ssize_t nbytes;
    if (!PyArg_ParseTuple(args, "y#s", &bytes, &nbytes, &path))
        return NULL;
    struct psti_tree tree = {0};
    struct pst_error err = {0};
    enum pst_status status = psti_containers_tree_yaml(&tree, path, bytes, (size_t)nbytes, &err);
    if (status != PST_OK)
        return native_raise(status, &err);
    PyObject *found =
        tree.n == 0 ? Py_BuildValue("(sIs)", "plain", 1U, "") : to_python(&tree, &tree.nodes[0]);
    psti_containers_tree_free(&tree);
    return found;
}
