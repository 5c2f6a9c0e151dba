/* dataset_folder_kind.c - decides by file names whether a plain folder has images or audio files.
 *
 * A folder without any image is scanned again for audio files. A list of files, from the caller or
 * a label file, is one of audio if all its names are. One thread, at open; the functions on names:
 * any thread. */
#include "dataset/folder/dataset_folder.h"

#include "base/fail.h"

#include <string.h>
#include <strings.h>

bool psti_dataset_folder_is_image_name(const char *name)
{
    static const char *const extensions[] = {".jpg", ".jpeg", ".png", ".webp", ".pli"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot != NULL && i < sizeof extensions / sizeof *extensions; i++)
        if (strcasecmp(dot, extensions[i]) == 0)
            return true;
    return false;
}

bool psti_dataset_is_audio_name(const char *name)
{
    static const char *const extensions[] = {".wav", ".flac", ".mp3",  ".ogg",
                                             ".oga", ".opus", ".aiff", ".aif"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot != NULL && i < sizeof extensions / sizeof *extensions; i++)
        if (strcasecmp(dot, extensions[i]) == 0)
            return true;
    return false;
}

bool psti_dataset_folder_takes(const struct psti_folder *folder, const char *name)
{
    return folder->is_audio ? psti_dataset_is_audio_name(name)
                            : psti_dataset_folder_is_image_name(name);
}

enum pst_status psti_dataset_folder_settle(struct psti_folder *folder, struct pst_error *err)
{
    if (!folder->is_audio) {
        const char *name = NULL;
        for (size_t i = 0; i < folder->files.n; i++) {
            name = psti_dataset_files_next(&folder->files, i, name);
            if (!psti_dataset_is_audio_name(name))
                return PST_OK;
        }
        folder->is_audio = folder->files.n > 0;
    }
    for (uint32_t i = 0; folder->is_audio && i < folder->n_columns; i++)
        if (strcmp(folder->columns[i].field.name, "audio") == 0)
            return psti_fail(err, PST_ERROR_ARGUMENT, "dataset",
                             "the field name \"audio\" is taken, by the files: rename the column");
    return PST_OK;
}
