/* stamp.c - makes and compares stamps of files.
 *
 * In: the result of stat(). Out: a number whose lowest bit tells whether it includes the inode
 * number and the time of status change. Pure functions, except psti_stamp_has_inodes, which asks
 * the file system. Any thread. */
#include "base/files/stamp.h"

#include "base/hash.h"

#include <stddef.h>
#include <sys/stat.h>
#include <sys/vfs.h>

bool psti_stamp_has_inodes(const char *path)
{
    static const uint32_t without[] = {
        0x65735546, /* FUSE */
        0xFF534D42, /* CIFS */
        0xFE534D42, /* SMB2 */
        0x0000517B, /* SMB */
        0x01021997, /* 9p */
        0x786F4256, /* VirtualBox's shared folders */
        0xBACBACBC  /* VMware's */
    };
    struct statfs fs;
    if (statfs(path, &fs) != 0)
        return false;
    for (size_t i = 0; i < sizeof without / sizeof without[0]; i++)
        if ((uint32_t)fs.f_type == without[i])
            return false;
    return true;
}

uint64_t psti_stamp_make(const struct stat *st, bool has_inodes)
{
    const uint64_t parts[] = {(uint64_t)st->st_size,
                              (uint64_t)st->st_mtim.tv_sec,
                              (uint64_t)st->st_mtim.tv_nsec,
                              has_inodes ? (uint64_t)st->st_ino : 0,
                              has_inodes ? (uint64_t)st->st_ctim.tv_sec : 0,
                              has_inodes ? (uint64_t)st->st_ctim.tv_nsec : 0};
    uint64_t stamp = (psti_hash64(parts, sizeof parts) & ~UINT64_C(1)) | (has_inodes ? 1u : 0u);
    return stamp != 0 ? stamp : 2;
}

uint32_t psti_stamp_short(uint64_t stamp) { return (uint32_t)stamp != 0 ? (uint32_t)stamp : 2; }

bool psti_stamp_fits(uint64_t stamp, const struct stat *st)
{
    return stamp == 0 ||
           psti_stamp_short(psti_stamp_make(st, stamp & 1)) == psti_stamp_short(stamp);
}

bool psti_stamp_is(uint64_t stamp, const struct stat *st)
{
    return stamp == 0 || psti_stamp_make(st, stamp & 1) == stamp;
}
