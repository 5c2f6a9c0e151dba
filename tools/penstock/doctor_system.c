/* doctor_system.c - checks what the kernel and this process's limits allow: memory, shared memory,
 * descriptors, huge pages, sealed memory. It reads /proc and /sys, and creates one memfd. */
#include "cli.h"
#include "doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { SHM_MIB_MIN = 1024, DESCRIPTORS_MIN = 256, DESCRIPTORS_GOOD = 4096 };

/* Reads the first line of a file. Returns false if there is none. */
static bool read_line(const char *path, char *line, size_t capacity)
{
    FILE *file = fopen(path, "re");
    bool ok = file != NULL && fgets(line, (int)capacity, file) != NULL;
    if (ok)
        line[strcspn(line, "\n")] = '\0';
    if (file != NULL)
        fclose(file);
    return ok;
}

/* Returns a value of /proc/meminfo in bytes; 0 if it does not exist. */
static uint64_t meminfo(const char *name)
{
    char line[128], key[64];
    unsigned long long kib;
    uint64_t nbytes = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "%63[^:]: %llu", key, &kib) == 2 && strcmp(key, name) == 0)
            nbytes = kib * 1024;
    if (file != NULL)
        fclose(file);
    return nbytes;
}

static void check_kernel(struct doctor *doctor)
{
    struct utsname system;
    if (uname(&system) == 0)
        doctor_add(doctor, "kernel", "%s %s", system.sysname, system.release);
}

/* True if the line contains the word, separated by spaces. */
static bool has_word(const char *line, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = line; (at = strstr(at, word)) != NULL; at += n)
        if ((at == line || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0' || at[n] == '\n'))
            return true;
    return false;
}

/* Checks which vector extensions an x86 CPU has. Without some of them a few kernels use AVX2
 * instead of AVX-512. */
static void check_vectors(struct doctor *doctor)
{
    static const char *const names[] = {"avx2",         "avx512f", "avx512bw", "avx512vbmi",
                                        "avx512_vbmi2", "gfni",    NULL};
    char line[8192], found[128] = "", lacks[128] = "";
    FILE *file = fopen("/proc/cpuinfo", "re");
    bool has_flags = false;
    while (file != NULL && !has_flags && fgets(line, sizeof line, file) != NULL)
        has_flags = strncmp(line, "flags", 5) == 0;
    if (file != NULL)
        fclose(file);
    if (!has_flags)
        return;
    for (size_t i = 0; names[i] != NULL; i++) {
        char *list = has_word(line, names[i]) ? found : lacks;
        snprintf(list + strlen(list), sizeof found - strlen(list), "%s%s", *list ? " " : "",
                 names[i]);
    }
    struct doctor_check *check =
        doctor_add(doctor, "vectors", "%s", found[0] == '\0' ? "none of AVX2 and AVX-512" : found);
    if (has_word(line, "avx512f") && lacks[0] != '\0')
        doctor_advise(check, DOCTOR_NOTE, "without %s a part of the kernels is AVX2's", lacks);
}

/* Uses the library's own figure: the machine's memory, less what control groups withhold. */
static void check_memory(struct doctor *doctor)
{
    struct pst_cache_advice advice;
    char available[32], total[32], cached[32];
    uint64_t machine = meminfo("MemTotal");
    pst_cache_advise(0, &advice, sizeof advice);
    if (advice.available_nbytes == UINT64_MAX) {
        doctor_add(doctor, "memory", "not known");
        return;
    }
    cli_size_text(advice.available_nbytes, available);
    cli_size_text(machine, total);
    cli_size_text(meminfo("Cached"), cached);
    struct doctor_check *check =
        doctor_add(doctor, "memory",
                   "%s can still be had within machine (%s) and control groups; the page cache "
                   "holds %s",
                   available, total, cached);
    if (advice.available_nbytes < (UINT64_C(256) << 20))
        doctor_advise(check, DOCTOR_BAD,
                      "a loader needs some hundred MiB: raise the memory of the machine or the "
                      "control group");
    else if (advice.available_nbytes < (UINT64_C(4) << 30))
        doctor_advise(check, DOCTOR_NOTE,
                      "a loader takes up to 4 GiB: give it less by host_memory, such as \"1GiB\"");
}

static void check_shared_memory(struct doctor *doctor)
{
    struct statvfs fs;
    char size[32], room[32];
    struct doctor_check *check;
    if (statvfs("/dev/shm", &fs) != 0 || access("/dev/shm", W_OK | X_OK) != 0) {
        check = doctor_add(doctor, "shared memory", "/dev/shm: %s", strerror(errno));
        doctor_advise(check, DOCTOR_NOTE,
                      "torch's DataLoader with workers needs it: mount a tmpfs there");
        return;
    }
    uint64_t all = (uint64_t)fs.f_blocks * fs.f_frsize, left = (uint64_t)fs.f_bavail * fs.f_frsize;
    cli_size_text(all, size);
    cli_size_text(left, room);
    check = doctor_add(doctor, "shared memory", "/dev/shm has %s, %s free", size, room);
    if (left < ((uint64_t)SHM_MIB_MIN << 20))
        doctor_advise(check, DOCTOR_NOTE,
                      "torch's DataLoader with workers passes batches through it: docker run "
                      "--shm-size=8g, or a larger tmpfs; ps.Loader does not need it");
}

static void check_descriptors(struct doctor *doctor)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    struct doctor_check *check =
        doctor_add(doctor, "descriptors", "%llu files may be open, %llu if raised",
                   (unsigned long long)limit.rlim_cur, (unsigned long long)limit.rlim_max);
    enum doctor_state state = limit.rlim_cur < DESCRIPTORS_MIN ? DOCTOR_BAD : DOCTOR_NOTE;
    if (limit.rlim_cur >= DESCRIPTORS_GOOD)
        return;
    if (limit.rlim_max > limit.rlim_cur)
        doctor_advise(check, state, "each shard that is read stays open: ulimit -n %llu",
                      (unsigned long long)(limit.rlim_max < 65536 ? limit.rlim_max : 65536));
    else
        doctor_advise(check, state,
                      "each shard that is read stays open: raise the hard limit (limits.conf, "
                      "LimitNOFILE=, docker run --ulimit nofile=65536)");
}

static void check_locked_memory(struct doctor *doctor)
{
    struct rlimit limit;
    char size[32] = "no limit";
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0)
        return;
    if (limit.rlim_cur != RLIM_INFINITY)
        cli_size_text(limit.rlim_cur, size);
    struct doctor_check *check = doctor_add(doctor, "locked memory", "%s", size);
    if (limit.rlim_cur < (1u << 20))
        doctor_advise(check, DOCTOR_NOTE,
                      "older kernels count io_uring's rings in it: ulimit -l 8192");
}

static void check_huge_pages(struct doctor *doctor)
{
    char line[128];
    if (!read_line("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof line)) {
        doctor_advise(doctor_add(doctor, "huge pages", "the kernel has none"), DOCTOR_NOTE,
                      "batches lie in small pages, which costs some per cent");
        return;
    }
    bool never = strstr(line, "[never]") != NULL;
    struct doctor_check *check = doctor_add(doctor, "huge pages", "transparent: %s", line);
    if (never)
        doctor_advise(check, DOCTOR_NOTE,
                      "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled: batches in huge "
                      "pages are written faster");
}

/* Checks that memory can be shared by descriptor and sealed against writing. Uses system call
 * numbers and the kernel's constants, because older C libraries have neither. */
static void check_sealed_memory(struct doctor *doctor)
{
    enum { CLOEXEC = 1, ALLOW_SEALING = 2, ADD_SEALS = 1024 + 9, SEAL_FUTURE_WRITE = 16 };
    int fd = (int)syscall(SYS_memfd_create, "penstock-doctor", CLOEXEC | ALLOW_SEALING);
    if (fd < 0) {
        doctor_advise(doctor_add(doctor, "memfd", "%s", strerror(errno)), DOCTOR_NOTE,
                      "sharing between processes needs memfd_create: Linux 3.17 or newer, and a "
                      "seccomp profile that allows it");
        return;
    }
    bool seals = fcntl(fd, ADD_SEALS, SEAL_FUTURE_WRITE) == 0;
    int os_error = errno;
    close(fd);
    struct doctor_check *check = doctor_add(
        doctor, "memfd", seals ? "works, with F_SEAL_FUTURE_WRITE" : "F_SEAL_FUTURE_WRITE: %s",
        strerror(os_error));
    if (!seals)
        doctor_advise(check, DOCTOR_NOTE,
                      "sharing between processes needs the seal: Linux 5.1 or newer");
}

void doctor_system(struct doctor *doctor)
{
    check_kernel(doctor);
    check_vectors(doctor);
    check_memory(doctor);
    check_shared_memory(doctor);
    check_descriptors(doctor);
    check_locked_memory(doctor);
    check_huge_pages(doctor);
    check_sealed_memory(doctor);
}
