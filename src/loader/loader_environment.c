/* loader_environment.c - describes this build and this machine as one JSON object for bug reports.
 *
 * It changes nothing: it opens a storage engine for a moment to test whether io_uring works, looks
 * for a CUDA driver, and asks the other rooms which kernels they would use. No state is kept. */
#include "base/machine/cores.h"
#include "base/machine/cpu.h"
#include "base/fail.h"
#include "base/thread.h"
#include "decode/decode.h"
#include "device/device.h"
#include "storage/storage.h"

#include <penstock/penstock.h>

#include <sys/utsname.h>
#include <unistd.h>

/* Adds a string in JSON's syntax. The values are ASCII, from the system and from libraries. */
static void add_string(struct psti_text *text, const char *value)
{
    psti_text_add(text, "\"");
    for (const unsigned char *c = (const unsigned char *)value; *c; c++) {
        if (*c == '"' || *c == '\\')
            psti_text_add(text, "\\%c", *c);
        else if (*c < 0x20)
            psti_text_add(text, "\\u%04x", *c);
        else
            psti_text_add(text, "%c", *c);
    }
    psti_text_add(text, "\"");
}

static void add_member(struct psti_text *text, const char *name, const char *value)
{
    psti_text_add(text, ", \"%s\": ", name);
    add_string(text, value);
}

static void add_codecs(struct psti_text *text)
{
    struct psti_codec_version versions[8];
    size_t n = psti_decode_versions(versions, sizeof versions / sizeof versions[0]);
    psti_text_add(text, ", \"codecs\": {");
    for (size_t i = 0; i < n; i++) {
        psti_text_add(text, "%s\"%s\": ", i ? ", " : "", versions[i].codec);
        add_string(text, versions[i].version);
    }
    psti_text_add(text, "}");
}

static void add_cpu(struct psti_text *text)
{
    add_member(text, "cpu_detected", psti_cpu_level_name(psti_cpu_detected()));
    add_member(text, "cpu_used", psti_cpu_level_name(psti_cpu_features()));
    psti_text_add(text, ", \"cores\": %u, \"page_nbytes\": %ld", psti_thread_cores(),
                  sysconf(_SC_PAGESIZE));
}

static void add_storage(struct psti_text *text)
{
    const struct psti_storage_options options = {
        .kind = PST_STORAGE_AUTO, .n_threads = 1, .depth = 1};
    struct psti_storage *storage = NULL;
    if (psti_storage_open(&options, &storage, NULL) != PST_OK) {
        add_member(text, "storage", "unknown: the engine does not open");
        return;
    }
    bool uring = psti_storage_kind_in_use(storage) == PST_STORAGE_URING;
    add_member(text, "storage", uring ? "io_uring" : "threads");
    add_member(text, "storage_reason", psti_storage_reason(storage));
    psti_storage_close(&storage);
}

/* Adds the properties of all GPUs. No CUDA context is created. */
static void add_gpus(struct psti_text *text)
{
    struct psti_device_kernels kernels;
    struct psti_device_info info;
    struct pst_error err;
    char reason[PST_ERROR_TEXT_CAP];
    uint32_t n = psti_device_count(reason, sizeof reason);
    psti_text_add(text, ", \"gpus\": [");
    for (uint32_t i = 0; i < n; i++) {
        pst_error_clear(&err);
        (void)psti_device_look(i, &info, &err);
        psti_text_add(text, "%s{\"name\": ", i ? ", " : "");
        add_string(text, info.name);
        psti_text_add(
            text, ", \"capability\": \"%u.%u\", \"memory_nbytes\": %llu, \"driver\": \"%u.%u\"",
            info.capability_major, info.capability_minor, (unsigned long long)info.memory_nbytes,
            info.driver_version / 1000, info.driver_version % 1000 / 10);
        add_member(text, "reason", err.text);
        psti_text_add(text, "}");
    }
    psti_text_add(text, "]");
    add_member(text, "gpus_reason", reason);
    pst_error_clear(&err);
    if (psti_device_kernels(&kernels, &err) == PST_OK) {
        add_member(text, "gpu_kernels", kernels.path);
        add_member(text, "gpu_kernels_for", kernels.targets);
    } else {
        add_member(text, "gpu_kernels", "");
    }
    add_member(text, "gpu_kernels_reason", err.text);
}

uint32_t pst_cores(void) { return psti_cores_of_rank(); }

enum pst_status pst_environment_check(struct pst_error *err) { return psti_cpu_check_mask(err); }

size_t pst_environment_json(char *buffer, size_t capacity)
{
    struct psti_text text = {buffer, capacity, 0};
    struct utsname system;
    if (capacity)
        buffer[0] = '\0';
    psti_text_add(&text, "{\"version\": ");
    add_string(&text, pst_version());
    add_member(&text, "compiler", __VERSION__);
    if (uname(&system) == 0) {
        add_member(&text, "system", system.sysname);
        add_member(&text, "kernel", system.release);
        add_member(&text, "architecture", system.machine);
    }
    add_cpu(&text);
    add_codecs(&text);
    add_storage(&text);
    add_gpus(&text);
    psti_text_add(&text, "}");
    return text.length;
}
