/* dataset_saved_lock.c - the lock of a saved index: one maker among the processes of all hosts.
 *
 * The lock is a file created with O_EXCL, which network file systems support too. It names the
 * maker and its progress; the maker rewrites it every second. On the maker's own machine, a waiting
 * process sees whether the maker's process still exists. On other machines it compares the lock's
 * time with that of a file which it touches itself, so both times come from the file system's
 * clock.
 *
 * A dead maker's lock is renamed before it is removed. If another waiting process was faster, the
 * renamed file may be the lock of a new maker. Its token shows that, and it is renamed back. */
#include "dataset/dataset_saved_int.h"

#include "base/clock.h"
#include "base/fail.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/files/read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MS INT64_C(1000000)
#define TELL_NS (100 * MS)
#define BEAT_NS (1000 * MS)
#define LOG_NS (5000 * MS)
#define PROBE_NS (2000 * MS) /* time between two readings of the file system's clock */
/* Time after which a lock without a note counts as dead. A maker writes the note right after it
 * creates the lock, so it was killed in between. */
#define UNWRITTEN_NS (10000 * MS)

/* Processes
 * -------------------------------------------------------------------------------------------- */

/* Reads up to capacity - 1 bytes of a file of /proc, and adds a NUL. */
static bool read_small(const char *path, char *text, size_t capacity)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : psti_read_at(fd, text, capacity - 1, 0);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* Reads a process's start time, in clock ticks since boot, and its state (proc(5)). False: not
 * available. */
static bool look_at_process(uint64_t pid, uint64_t *start, char *state)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%" PRIu64 "/stat", pid);
    const char *at = read_small(path, text, sizeof text) ? strrchr(text, ')') : NULL;
    if (at == NULL || at[1] != ' ')
        return false;
    *state = at[2];
    for (int field = 2; field < 22 && at != NULL; field++) /* field 2 is the process's name */
        at = strchr(at + 1, ' ');
    if (at == NULL)
        return false;
    *start = strtoull(at + 1, NULL, 10);
    return true;
}

void psti_dataset_saved_name_maker(struct psti_saved *saved)
{
    struct psti_lock_note *note = &saved->note;
    struct stat st;
    char state;
    memset(note, 0, sizeof *note);
    if (gethostname(note->host, sizeof note->host) != 0)
        note->host[0] = '\0';
    note->host[sizeof note->host - 1] = '\0';
    if (read_small("/proc/sys/kernel/random/boot_id", note->boot, sizeof note->boot))
        note->boot[strcspn(note->boot, "\n")] = '\0';
    if (stat("/proc/self/ns/pid", &st) == 0)
        note->space = (uint64_t)st.st_ino;
    note->pid = (uint64_t)getpid();
    if (!look_at_process(note->pid, &note->start, &state))
        note->start = 0;
    const uint64_t parts[] = {note->pid, note->start, (uint64_t)psti_clock_ns(),
                              (uint64_t)(uintptr_t)saved, psti_hash64(note, sizeof *note)};
    note->token = psti_hash64(parts, sizeof parts);
}

static bool is_of_this_machine(const struct psti_lock_note *a, const struct psti_lock_note *b)
{
    return a->boot[0] != '\0' && strcmp(a->boot, b->boot) == 0 && a->space != 0 &&
           a->space == b->space;
}

/* True if the process that wrote the note, on this machine, does not exist any more. */
static bool is_gone(const struct psti_lock_note *note)
{
    uint64_t start;
    char state;
    if (note->pid == 0 || note->pid > INT_MAX)
        return true;
    if (kill((pid_t)note->pid, 0) != 0 && errno == ESRCH)
        return true;
    if (!look_at_process(note->pid, &start, &state))
        return false;
    return state == 'Z' || state == 'X' || (note->start != 0 && note->start != start);
}

/* The lock file
 * -------------------------------------------------------------------------------------------- */

static int64_t time_ns(const struct timespec *time)
{
    return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

/* Writes the note, and lets the file system set the file's time. Returns 0 or errno. */
static int write_note(int fd, const struct psti_lock_note *note)
{
    char text[PSTI_LOCK_NBYTES];
    psti_format_print_lock(note, text);
    ssize_t n = pwrite(fd, text, sizeof text, 0);
    if (n != (ssize_t)sizeof text)
        return n < 0 ? errno : ENOSPC;
    return futimens(fd, NULL) == 0 ? 0 : errno;
}

int psti_dataset_saved_lock(struct psti_saved *saved)
{
    struct timespec now;
    struct stat st;
    int fd = psti_fault(PSTI_FAULT_WRITE)
                 ? (errno = ENOSPC, -1)
                 : openat(saved->dir, saved->lock_name,
                          O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        return errno;
    int failed = write_note(fd, &saved->note);
    if (failed == 0 && fstat(fd, &st) != 0)
        failed = errno;
    if (close(fd) != 0 && failed == 0)
        failed = errno;
    if (failed != 0) {
        unlinkat(saved->dir, saved->lock_name, 0);
        return failed;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    saved->skew_ns = time_ns(&st.st_mtim) - time_ns(&now);
    saved->has_fine_times = st.st_mtim.tv_nsec != 0;
    saved->beat_ns = psti_clock_ns();
    saved->is_lost = false;
    return 0;
}

/* Reads the note in an open lock file. The note is all zero if the file holds none. */
static void read_note(int fd, struct psti_lock_note *note)
{
    char text[PSTI_LOCK_NBYTES];
    ssize_t n = psti_read_at(fd, text, sizeof text, 0);
    psti_format_parse_lock(text, n > 0 ? (size_t)n : 0, note);
}

/* Opens a file of that name in the place's folder, and reads the note in it. Returns -1 with
 * errno. */
static int open_note(const struct psti_saved *saved, const char *name, int access,
                     struct psti_lock_note *note)
{
    int fd = openat(saved->dir, name, access | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0)
        read_note(fd, note);
    return fd;
}

void psti_dataset_saved_beat(struct psti_saved *saved)
{
    struct psti_lock_note there;
    /* Opened each time, so that a network file system shows its current content, and sends the new
     * content at close. */
    int fd = open_note(saved, saved->lock_name, O_RDWR, &there);
    saved->beat_ns = psti_clock_ns();
    if (fd < 0) {
        saved->is_lost = saved->is_lost || errno == ENOENT;
        return;
    }
    if (there.token == saved->note.token)
        (void)write_note(fd, &saved->note); /* a failure, such as a full disk, does not stop the
                                             * maker */
    else if (there.pid != 0)
        saved->is_lost = true;
    close(fd);
}

void psti_dataset_saved_unlock(struct psti_saved *saved)
{
    struct psti_lock_note there;
    int fd = open_note(saved, saved->lock_name, O_RDONLY, &there);
    /* A lock that cannot be read is most likely that of this process. */
    if (fd >= 0 && (there.token == saved->note.token || there.pid == 0))
        unlinkat(saved->dir, saved->lock_name, 0);
    if (fd >= 0)
        close(fd);
}

/* Waiting
 * -------------------------------------------------------------------------------------------- */

/* What a waiting process has seen of the lock. */
struct look {
    struct psti_lock_note note; /* all zero: the note cannot be read, or is not written yet */
    struct stat st;
    int64_t changed_ns; /* time at which the note last changed */
    int64_t probed_ns;
    bool is_old; /* true if the note is too old by the file system's clock */
};

/* Reads the file system's clock, by touching a file and reading its time. */
static bool read_clock(const struct psti_saved *saved, int64_t *now_ns)
{
    char name[PSTI_SAVED_FILE_CAP];
    struct stat st;
    snprintf(name, sizeof name, "%s.now-%016" PRIx64, saved->name, saved->note.token);
    int fd = openat(saved->dir, name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        return false;
    bool is_read = futimens(fd, NULL) == 0 && fstat(fd, &st) == 0;
    if (is_read)
        *now_ns = time_ns(&st.st_mtim);
    close(fd);
    unlinkat(saved->dir, name, 0);
    return is_read;
}

/* Reads the lock file. False: it does not exist any more. */
static bool look_at_lock(const struct psti_saved *saved, struct look *look)
{
    struct psti_lock_note before = look->note;
    int fd = open_note(saved, saved->lock_name, O_RDONLY, &look->note);
    if (fd < 0)
        return errno != ENOENT && errno != ESTALE;
    bool is_there = fstat(fd, &look->st) == 0;
    close(fd);
    if (!is_there)
        return true;
    if (memcmp(&before, &look->note, sizeof before) != 0)
        look->changed_ns = psti_clock_ns();
    return true;
}

static bool is_dead(const struct psti_saved *saved, struct look *look)
{
    int64_t now_ns, here_ns = psti_clock_ns();
    if (is_of_this_machine(&look->note, &saved->note))
        return is_gone(&look->note);
    if (look->probed_ns == 0 || here_ns - look->probed_ns >= PROBE_NS) {
        int64_t lost_ns = saved->wait.lost_ns;
        if (look->note.pid == 0 && lost_ns > UNWRITTEN_NS)
            lost_ns = UNWRITTEN_NS;
        look->probed_ns = here_ns;
        look->is_old = read_clock(saved, &now_ns) && now_ns - time_ns(&look->st.st_mtim) > lost_ns;
    }
    return look->is_old;
}

/* Removes the lock of a dead maker, if it is still the same file. */
static void take_away(const struct psti_saved *saved, const struct look *look)
{
    char name[PSTI_SAVED_FILE_CAP];
    struct psti_lock_note taken;
    snprintf(name, sizeof name, "%s.dead-%016" PRIx64, saved->name, saved->note.token);
    if (renameat(saved->dir, saved->lock_name, saved->dir, name) != 0)
        return;
    int fd = open_note(saved, name, O_RDONLY, &taken);
    if (fd >= 0)
        close(fd);
    bool is_another = fd >= 0 && taken.token != look->note.token;
    if (is_another)
        (void)linkat(saved->dir, name, saved->dir, saved->lock_name, 0);
    unlinkat(saved->dir, name, 0);
    if (is_another)
        return;
    psti_log(PST_LOG_WARNING, "dataset",
             "%s/%s: process %" PRIu64 " on %s, which made this index, is gone",
             saved->places[saved->i_place].path, saved->name, look->note.pid, look->note.host);
}

enum pst_status psti_dataset_saved_report(struct psti_saved *saved,
                                          const struct pst_progress *progress,
                                          const struct psti_lock_note *note, struct pst_error *err)
{
    int64_t now_ns = psti_clock_ns();
    if (now_ns - saved->told_ns < TELL_NS)
        return PST_OK;
    saved->told_ns = now_ns;
    if (saved->wait.progress != NULL)
        return saved->wait.progress(saved->wait.ctx, progress) == 0
                   ? PST_OK
                   : psti_fail(err, PST_ERROR_CANCELLED, "dataset",
                               "cancelled while an index was made");
    if (saved->logged_ns == 0)
        saved->logged_ns = now_ns; /* delays the first line in the log, because short work needs
                                    * none */
    if (now_ns - saved->logged_ns < LOG_NS)
        return PST_OK;
    saved->logged_ns = now_ns;
    if (note != NULL)
        psti_log(PST_LOG_INFO, "dataset",
                 "%s: process %" PRIu64 " on %s makes the index: %" PRIu64 " of %" PRIu64,
                 saved->folder, note->pid, note->host, progress->n_done, progress->n_total);
    else if (!saved->is_maker)
        psti_log(PST_LOG_INFO, "dataset", "%s: %" PRIu64 " files so far", saved->folder,
                 progress->n_done);
    else if (progress->n_total > 0)
        psti_log(PST_LOG_INFO, "dataset", "%s: making the index: %" PRIu64 " of %" PRIu64,
                 saved->folder, progress->n_done, progress->n_total);
    else
        psti_log(PST_LOG_INFO, "dataset", "%s: making the index: %" PRIu64, saved->folder,
                 progress->n_done);
    return PST_OK;
}

static enum pst_status fail_patience(struct psti_saved *saved, const struct look *look,
                                     struct pst_error *err)
{
    const struct psti_lock_note *note = &look->note;
    const char *path = psti_dataset_saved_show(saved, saved->i_place, saved->lock_name);
    double seconds = (double)saved->wait.patience_ns / 1e9;
    if (note->pid == 0)
        return psti_fail_at(err, PST_ERROR_BUSY, "dataset", path, -1,
                            "some process makes an index of this data and told no progress for "
                            "%.0f s: if there is none, remove the lock file",
                            seconds);
    return psti_fail_at(err, PST_ERROR_BUSY, "dataset", path, -1,
                        "process %" PRIu64 " on %s makes an index of this data and told no "
                        "progress for %.0f s: end it, or if it is gone remove the lock file",
                        note->pid, note->host, seconds);
}

enum pst_status psti_dataset_saved_wait(struct psti_saved *saved, struct pst_error *err)
{
    struct look look;
    memset(&look, 0, sizeof look);
    int64_t begun_ns = psti_clock_ns();
    look.changed_ns = begun_ns;
    while (look_at_lock(saved, &look)) {
        int64_t now_ns = psti_clock_ns();
        if (!psti_dataset_saved_trusts(saved, saved->i_place, &look.st)) {
            saved->places[saved->i_place].is_left_out = true;
            return PST_OK;
        }
        if (is_dead(saved, &look)) {
            take_away(saved, &look);
            return PST_OK;
        }
        if (now_ns - look.changed_ns > saved->wait.patience_ns)
            return fail_patience(saved, &look, err);
        const struct pst_progress progress = {.n_done = look.note.n_done,
                                              .n_total = look.note.n_total};
        enum pst_status status = psti_dataset_saved_report(saved, &progress, &look.note, err);
        if (status != PST_OK)
            return status;
        psti_clock_sleep_until(now_ns + (now_ns - begun_ns < 1000 * MS ? 20 * MS : 200 * MS));
    }
    return PST_OK;
}
