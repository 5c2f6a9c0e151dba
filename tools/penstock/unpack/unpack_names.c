/* unpack_names.c - the set of file names in use, because no two samples may share a file.
 *
 * In: names of files, in the order of samples. Out: OK, or PST_ERROR_EXISTS for a name that an
 * earlier sample uses, also if one sample's file would be another's folder. The result depends only
 * on the data set, not on threads or on files in the folder. The caller holds a lock. The table
 * keeps 16 bytes for each name: its hash, and the sample that the name can be derived from again.
 */
#include "unpack.h"

#include <stdlib.h>
#include <string.h>

enum { OF_MASK = 1, AS_FOLDER = 2, N_FLAGS = 2 };

struct unpack_name {
    uint64_t hash;
    uint64_t owner; /* (sample + 1) shifted left by the flags' bits; 0 if free */
};

static uint64_t hash_of(const char *path, size_t nbytes)
{
    uint64_t hash = 0xCBF29CE484222325u; /* FNV-1a */
    for (size_t i = 0; i < nbytes; i++)
        hash = (hash ^ (uint8_t)path[i]) * 0x100000001B3u;
    return hash ^ hash >> 29;
}

static bool grow(struct unpack_names *names)
{
    uint64_t capacity = names->capacity == 0 ? 1024 : names->capacity * 2;
    struct unpack_name *slots = calloc((size_t)capacity, sizeof *slots);
    if (slots == NULL)
        return false;
    for (uint64_t i = 0; i < names->capacity; i++) {
        uint64_t at = names->slots[i].hash;
        if (names->slots[i].owner == 0)
            continue;
        while (slots[at & (capacity - 1)].owner != 0)
            at++;
        slots[at & (capacity - 1)] = names->slots[i];
    }
    free(names->slots);
    names->slots = slots;
    names->capacity = capacity;
    return true;
}

/* True if the sample of a table entry uses the first `nbytes` of `path`, as its file or as its
 * folder. */
static bool is_same(const struct unpack_plan *plan, uint64_t owner, const char *path, size_t nbytes)
{
    struct unpack_file file;
    struct pst_error unused;
    if (unpack_find(plan, (owner >> N_FLAGS) - 1, (owner & OF_MASK) != 0, &file, &unused) != PST_OK)
        return true; /* the data set changed: fail rather than overwrite a file */
    return strncmp(file.path, path, nbytes) == 0 &&
           file.path[nbytes] == ((owner & AS_FOLDER) != 0 ? '/' : '\0');
}

static enum pst_status place(const struct unpack_plan *plan, struct unpack_names *names,
                             const char *path, size_t nbytes, uint64_t owner, struct pst_error *err)
{
    uint64_t hash = hash_of(path, nbytes);
    if (names->n >= names->capacity / 4 * 3 && !grow(names))
        return cli_error(err, PST_ERROR_MEMORY, "out of memory for the names of the files");
    for (uint64_t at = hash;; at++) {
        struct unpack_name *slot = &names->slots[at & (names->capacity - 1)];
        if (slot->owner == 0) {
            *slot = (struct unpack_name){hash, owner};
            names->n++;
            return PST_OK;
        }
        if (slot->hash != hash || !is_same(plan, slot->owner, path, nbytes))
            continue;
        if ((slot->owner & owner & AS_FOLDER) != 0)
            return PST_OK;
        cli_error(err, PST_ERROR_EXISTS, "sample %llu has %s of this name",
                  (unsigned long long)(slot->owner >> N_FLAGS) - 1,
                  ((slot->owner | owner) & AS_FOLDER) == 0 ? "the file"
                  : (slot->owner & AS_FOLDER) != 0         ? "a folder"
                                                           : "a file where a folder must be");
        snprintf(err->file, sizeof err->file, "%.*s", (int)(nbytes < 200 ? nbytes : 200), path);
        return PST_ERROR_EXISTS;
    }
}

enum pst_status unpack_claim(const struct unpack_plan *plan, struct unpack_names *names,
                             uint64_t sample, bool mask, const char *path, struct pst_error *err)
{
    uint64_t owner = (sample + 1) << N_FLAGS | (mask ? OF_MASK : 0);
    const char *last = strrchr(path, '/');
    size_t folder_nbytes = last != NULL ? (size_t)(last - path) : 0;
    enum pst_status status = PST_OK;
    bool known =
        strncmp(names->folder, path, folder_nbytes) == 0 && names->folder[folder_nbytes] == '\0';
    for (const char *slash = strchr(path, '/'); slash != NULL && !known && status == PST_OK;
         slash = strchr(slash + 1, '/'))
        status = place(plan, names, path, (size_t)(slash - path), owner | AS_FOLDER, err);
    if (status != PST_OK)
        return status;
    memcpy(names->folder, path, folder_nbytes);
    names->folder[folder_nbytes] = '\0';
    return place(plan, names, path, strlen(path), owner, err);
}

void unpack_names_free(struct unpack_names *names)
{
    free(names->slots);
    names->slots = NULL;
}
