/* native.h - declarations that the files of the extension module share.
 *
 * Rules: the Python code has checked the arguments, but this module checks type and range again. It
 * contains no pipeline logic. Functions that may block release the GIL. No thread of the C library
 * ever calls Python. After fork(), the child neither uses nor frees handles of the parent, because
 * the handles' threads do not exist there. */
#ifndef PENSTOCK_NATIVE_H
#define PENSTOCK_NATIVE_H

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>

#include <penstock/penstock.h>

#include <sys/types.h>

/* The types of the module, which its module state stores. */
struct native_state {
    PyTypeObject *dataset_type;
    PyTypeObject *loader_type;
    PyTypeObject *batch_type;
    PyTypeObject *delivery_type;
    PyTypeObject *receipt_type;
    PyTypeObject *tensor_type;
    PyTypeObject *writer_type;
    PyTypeObject *cache_type;
    PyTypeObject *images_type;
    PyTypeObject *picture_type;
    PyTypeObject *fleet_type;
};

struct native_dataset {
    PyObject_HEAD pst_dataset *handle; /* NULL once closed */
};

/* Converts the names of mask columns. `names` is a tuple of str, which must stay alive while
 * `options` is used. Returns -1 with an exception set on failure. */
int native_mask_names(PyObject *names, const char *out[PST_MAX_FIELDS],
                      struct pst_dataset_options *options);
/* Converts rules for members of tars to options->members, which point into the tuple of tuples
 * `rules`. Free *out with PyMem_Free after the use of `options`; NULL: no rules. Returns -1 with an
 * exception set on failure. */
int native_member_rules(PyObject *rules, struct pst_member_rule **out,
                        struct pst_dataset_options *options);
/* Returns the notices of a plain folder as a new list of dicts. NULL with an exception set. */
PyObject *native_notices(const pst_dataset *dataset);

/* Dataset.mixture(sources, fields, leaves_out): opens several data sets as one. */
PyObject *native_mixture_open(PyObject *type, PyObject *args);
/* Returns a list of (name, path, kind, first sample, samples), one for each source of a mixture. */
PyObject *native_mixture_sources(const pst_dataset *dataset);
/* Returns a list with the number of delivered rows of each of `n` sources. */
PyObject *native_mixture_rows(const pst_loader *loader, uint32_t n);

struct native_cache {
    PyObject_HEAD pst_cache *handle; /* never NULL after construction */
    pid_t pid;                       /* process that made the cache */
};

struct native_fleet {
    PyObject_HEAD pst_fleet *handle; /* never NULL after construction */
    pid_t pid;                       /* process that opened the fleet */
};

struct native_batch {
    PyObject_HEAD pst_batch *handle; /* this object's reference; never NULL where Python sees it */
    pid_t pid;                       /* process whose loader made the batch */
};

/* Errors (native_error.c). Both return NULL and set a Python exception. An exception that a signal
 * handler raised during the call is kept instead. */
PyObject *native_raise(enum pst_status status, const struct pst_error *err);
PyObject *native_raise_text(enum pst_status status, const char *format, ...) PST_PRINTF(2, 3);
/* Returns `err` as a dict with the attributes of PenstockError. NULL with an exception set on
 * failure. */
PyObject *native_error_dict(const struct pst_error *err);

/* Interrupt callback for calls that wait for the host service without the GIL: checks for signals
 * (native_error.c). Returns 1 with an exception set to end the call. ctx is not used. */
int native_interrupt(void *ctx);

/* Locks (native_lock.c). The caller holds the GIL; it is released while waiting. Ctrl-C ends the
 * wait. */
int native_lock_take(PyThread_type_lock lock); /* 0, or -1 with an exception set */

/* Converts values of Python dicts to members of C structs (native_dict.c). If a key is missing, the
 * member is unchanged. */
enum native_kind {
    NATIVE_U8,
    NATIVE_U16,
    NATIVE_U32,
    NATIVE_U64,
    NATIVE_BOOL,
    NATIVE_ENUM,
    NATIVE_FLOAT,
    NATIVE_DOUBLE
};
struct native_member {
    const char *key;
    enum native_kind kind;
    size_t offset;
    Py_ssize_t count; /* 0: a single number; else the most numbers of a sequence */
};
/* Returns 0, or -1 with an exception set. A key of `dict` that `members` does not list is an
 * error. */
int native_dict_read(PyObject *dict, const struct native_member *members, size_t n_members,
                     void *target, const char *what);
/* Like native_dict_read, for a struct that pst_describe describes. Pointers and their counts are
 * not read: `dict` must not have them. */
int native_struct_read(PyObject *dict, enum pst_struct which, void *target, const char *what);
/* Adds `value` to `dict` under `key`, and releases the caller's reference to `value`. If `value` is
 * NULL, returns -1 and keeps the exception that is set. */
int native_dict_put(PyObject *dict, const char *key, PyObject *value);
/* Converts a sequence of strings to C strings that live as long as `*owner`. Returns NULL with an
 * exception set on failure. */
const char **native_strings(PyObject *sequence, Py_ssize_t *n, PyObject **owner);

/* Options of a loader (native_options.c): the struct that is made from Python's dict, and the
 * memory that it points to. */
struct native_options {
    struct pst_loader_options loader;
    struct pst_field_output *fields;
    struct pst_op **ops;             /* [n_fields], an element may be NULL */
    struct pst_audio_op **audio_ops; /* like ops */
    struct pst_form_part form_parts[PST_MAX_VARIANTS];
    struct pst_mix mixes[PST_MAX_MIXES];
    struct pst_op *mix_ops[PST_MAX_MIXES]; /* an element may be NULL */
    PyObject *owner; /* Python object that keeps the names alive */
    Py_buffer indices, weights, cache_plan, source_weights, source_firsts;
};
int native_options_read(struct native_options *options, PyObject *dict,
                        const struct native_state *state);
void native_options_free(struct native_options *options);
/* Converts a list of dicts to operations on sound. Free *ops with PyMem_Free, also after a failure
 * (native_audio.c). */
int native_audio_ops_read(PyObject *list, struct pst_audio_op **ops, size_t *n_ops);
PyObject *native_sndfile(PyObject *module, PyObject *unused);
PyObject *native_audio_probe(PyObject *module, PyObject *bytes);
PyObject *native_yaml_tree(PyObject *module, PyObject *args);
PyObject *native_audio_decode(PyObject *module, PyObject *args);

/* Returns the meter of a loader as a dict (native_meter.c). NULL with an exception set on
 * failure. */
PyObject *native_meter_new(const pst_loader *loader, uint32_t n_workers);

/* Constructors. Each returns a new reference, or NULL with an exception set. */
PyObject *native_batch_new(struct native_state *state, pst_batch *handle); /* takes the reference,
                                                                              also on failure */
/* Makes a batch object with a NULL handle, which is set later. */
PyObject *native_batch_empty(struct native_state *state);
PyObject *native_tensor_new(struct native_state *state, PyObject *batch,
                            const struct pst_tensor *tensor);
/* Like native_tensor_new for contiguous arrays in host memory, but copies the numbers, so that the
 * array does not keep the batch alive. */
PyObject *native_tensor_copy(struct native_state *state, const struct pst_tensor *tensor);
struct native_state *native_state_of(PyObject *self);

/* Returns the buffer format of a dtype (letters of the module struct). NULL for bfloat16 and
 * unknown dtypes. */
const char *native_dtype_format(enum pst_dtype dtype);
/* Reference-counted memory of small arrays (native_block.c): 64-byte aligned, freed with the last
 * reference. Retain and release need no GIL. Returns NULL if there is no memory. */
struct native_block;
struct native_block *native_block_new(size_t nbytes);
void *native_block_data(struct native_block *block);
void native_block_retain(struct native_block *block);
void native_block_release(struct native_block *block); /* NULL is allowed */
/* Makes a DLPack capsule for `tensor`. Its consumer keeps `batch` alive, or `block` if `batch` is
 * NULL. */
PyObject *native_dlpack_export(struct native_batch *batch, struct native_block *block,
                               const struct pst_tensor *tensor, int versioned);

extern PyType_Spec native_dataset_spec, native_loader_spec, native_batch_spec, native_tensor_spec,
    native_delivery_spec, native_receipt_spec, native_writer_spec, native_cache_spec,
    native_images_spec, native_picture_spec, native_fleet_spec;

/* native_cache.c */
PyObject *native_cache_advise(PyObject *module, PyObject *argument);
PyObject *native_cache_plan(PyObject *module, PyObject *args);

/* Module functions (native_image.c, native_pli.c, native_pli_jpeg.c, native_pack.c). */
PyObject *native_probe(PyObject *module, PyObject *args);
PyObject *native_decode(PyObject *module, PyObject *args);
PyObject *native_pli_encode(PyObject *module, PyObject *args);
PyObject *native_pli_info(PyObject *module, PyObject *args);
PyObject *native_pli_decode(PyObject *module, PyObject *args);
PyObject *native_pli_from_jpeg(PyObject *module, PyObject *args);
PyObject *native_pli_to_jpeg(PyObject *module, PyObject *args);
PyObject *native_pack(PyObject *module, PyObject *args);
PyObject *native_merge(PyObject *module, PyObject *args);
PyObject *native_index(PyObject *module, PyObject *args);
PyObject *native_verify(PyObject *module, PyObject *args);

/* native_stall.c */
PyObject *native_stall_predict(PyObject *module, PyObject *dict);
PyObject *native_stall_need(PyObject *module, PyObject *args);
PyObject *native_stall_hit_ratio(PyObject *module, PyObject *args);

/* native_plan.c */
PyObject *native_plan_solve(PyObject *module, PyObject *args);
PyObject *native_plan_need(PyObject *module, PyObject *args);

#endif
