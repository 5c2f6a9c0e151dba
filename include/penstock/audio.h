/* audio.h - operations on the sound of a sample, as the loader applies them.
 *
 * An audio field whose wish (pst_field_output) has decode_audio is decoded and goes through a
 * chain, an array of struct pst_audio_op: WAV and MP3 by the library itself, FLAC, Ogg and others
 * by libsndfile, which is opened at run time. A waveform is f32 (C,T), -1..1 at full scale:
 * channels, samples. After PST_AUDIO_OP_SPECTROGRAM it is f32 (C,F,T): channels, bins, frames.
 * What a chain does not need is not decoded: a clip of 1 second out of 30 costs what 1 second
 * costs.
 *
 * Rules: a file that is damaged or cut short, that has 0 channels or 0 samples per second, or whose
 * floats are not all finite where they are decoded, is a bad sample (pst_loader_options.on_error).
 * So is one that is empty, one that is too short for an operation (clips have a rule of their own,
 * if_short), and one whose rate is not that of its mel bands. Where libsndfile is needed and there
 * is none, the epoch ends with that error. A sound of another rate than the others is delivered at
 * its own rate unless the chain resamples.
 *
 * Definitions are those of torchaudio. Random parameters are a pure function of (seed, epoch,
 * sample, draw, view, operation), as in augment.h. Clips are numbered among themselves and all
 * other operations among themselves, so a gain does not move a clip. */
#ifndef PENSTOCK_AUDIO_H
#define PENSTOCK_AUDIO_H

#include <penstock/status.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Largest number of operations in a chain. A spectrogram and its mel bands are two. */
#define PST_AUDIO_MAX_OPS 32

/* The kinds of operations. Each kind names the members of struct pst_audio_op that it reads.
 * Numbers are stable. */
enum pst_audio_op_kind {
    /* The mean of all channels. Taken before resampling and clips that stand before it, which only
     * changes rounding. */
    PST_AUDIO_OP_MONO = 1,
    /* rate, filter_width, rolloff: to `rate` samples per second, by a windowed sinc (Hann) of exact
     * ratio. */
    PST_AUDIO_OP_RESAMPLE = 2,
    /* n_samples, if_short: at a random place, uniform over those where it fits. */
    PST_AUDIO_OP_RANDOM_CLIP = 3,
    /* n_samples, if_short: the middle. */
    PST_AUDIO_OP_CENTER_CLIP = 4,
    /* n_samples: zeros at the end of a shorter waveform. A longer one stays as it is. */
    PST_AUDIO_OP_PAD_TO = 5,
    /* range: decibels that are added to the level; p: with that probability. */
    PST_AUDIO_OP_GAIN = 6,
    /* range: signal-to-noise ratio in decibels; p. White Gaussian noise, of that power in relation
     * to each channel's. A silent channel stays silent. */
    PST_AUDIO_OP_ADD_NOISE = 7,
    /* mask_max, p, value: a random run of less than mask_max samples or frames, and of no more than
     * the part p of them all. */
    PST_AUDIO_OP_TIME_MASK = 8,
    /* mask_max, value: as TIME_MASK, of bins. */
    PST_AUDIO_OP_FREQUENCY_MASK = 9,
    /* n_fft, win_length, hop_length, pad, window, pad_mode, no_center, power, normalized. */
    PST_AUDIO_OP_SPECTROGRAM = 10,
    /* rate, n_mels, f_min, f_max, mel_scale, mel_norm: bins to mel bands. A waveform of another
     * rate than `rate` is an error of the sample. */
    PST_AUDIO_OP_MEL = 11,
    /* multiplier, amin, ref, top_db: multiplier * (log10(max(x, amin)) - log10(max(ref, amin)));
     * with top_db >= 0 no less than the sample's largest value - top_db. */
    PST_AUDIO_OP_DECIBEL = 12,
    /* offset: natural logarithm of x + offset. */
    PST_AUDIO_OP_LOG = 13,
    /* n_mfcc, no_ortho: discrete cosine transform (type 2) over the bins. */
    PST_AUDIO_OP_DCT = 14
};

/* Rules for a waveform that is shorter than a clip. */
enum pst_audio_short {
    /* Zeros at its end. */
    PST_AUDIO_SHORT_PAD = 0,
    /* The sample is bad: PST_ERROR_UNSUPPORTED, on which pst_loader_options.on_error decides. */
    PST_AUDIO_SHORT_ERROR = 1,
    /* It is repeated from its start. An empty one is padded with zeros. */
    PST_AUDIO_SHORT_REPEAT = 2
};

/* Windows of a spectrogram. All are periodic, as torch's windows are by default. */
enum pst_audio_window {
    /* 0.5 - 0.5 cos. */
    PST_AUDIO_WINDOW_HANN = 0,
    /* 0.54 - 0.46 cos. */
    PST_AUDIO_WINDOW_HAMMING = 1,
    /* 0.42 - 0.5 cos + 0.08 cos of twice the angle. */
    PST_AUDIO_WINDOW_BLACKMAN = 2,
    /* No window: all 1. */
    PST_AUDIO_WINDOW_ONES = 3
};

/* Samples before the start and behind the end of a waveform, for frames that are centred there. */
enum pst_audio_pad_mode {
    /* The waveform mirrored, without repeating its edge. It needs more than n_fft / 2 samples. */
    PST_AUDIO_PAD_REFLECT = 0,
    /* Zeros. */
    PST_AUDIO_PAD_CONSTANT = 1,
    /* The sample at the edge, repeated. */
    PST_AUDIO_PAD_REPLICATE = 2
};

/* Factors of a spectrogram before its power is taken. */
enum pst_audio_normalized {
    /* 1. */
    PST_AUDIO_NORMALIZED_NO = 0,
    /* 1 / sqrt(sum of the squared window). */
    PST_AUDIO_NORMALIZED_WINDOW = 1,
    /* 1 / sqrt(n_fft). */
    PST_AUDIO_NORMALIZED_FRAME_LENGTH = 2
};

/* Scales of pitch, from hertz. */
enum pst_audio_mel_scale {
    /* 2595 log10(1 + f / 700). */
    PST_AUDIO_MEL_HTK = 0,
    /* Linear below 1000 Hz, logarithmic above: that of Slaney's Auditory Toolbox. */
    PST_AUDIO_MEL_SLANEY = 1
};

/* Heights of the triangles that make mel bands of bins. */
enum pst_audio_mel_norm {
    /* Each has the height 1. */
    PST_AUDIO_MEL_NORM_NONE = 0,
    /* Each has the area 1, in hertz. */
    PST_AUDIO_MEL_NORM_SLANEY = 1
};

/* One operation. `kind` says which members count (see enum pst_audio_op_kind); the others are
 * ignored. Prepare it with pst_audio_op_init, which fills in the defaults of that kind. It goes in
 * arrays: the size of an element is pst_loader_options.audio_op_nbytes. */
struct pst_audio_op {
    enum pst_audio_op_kind kind;
    /* Samples per second, 1 to 10000000. */
    uint32_t rate;
    /* Length of a clip, 1 to 2^31 - 1. */
    uint32_t n_samples;
    enum pst_audio_short if_short; /* default PAD */
    /* Low and high end of a range of decibels, within -200 to 200. A number is drawn from it,
     * uniformly. */
    float range[2];
    /* Probability, or part of the frames that a mask may hide: 0 to 1, default 1. */
    float p;
    /* Longest mask, in samples, frames or bins, 0 to 2^31 - 1. */
    uint32_t mask_max;
    /* What a mask writes; default 0. */
    float value;
    /* Length of a frame and of its FFT, 2 to 65536, without a prime factor above 13. Default 400.
     */
    uint32_t n_fft;
    /* Samples of a frame that the window covers, in its middle, 1 to n_fft; 0 = n_fft. */
    uint32_t win_length;
    /* Samples from one frame to the next; 0 = win_length / 2. */
    uint32_t hop_length;
    /* Zeros at both ends of the waveform, before everything else; 0 to 65536. */
    uint32_t pad;
    enum pst_audio_window window;     /* default HANN */
    enum pst_audio_pad_mode pad_mode; /* default REFLECT */
    /* Frames begin, rather than are centred, at multiples of hop_length. */
    bool no_center;
    /* PST_AUDIO_OP_DCT: without the factors that make it orthonormal. */
    bool no_ortho;
    /* 1: magnitude; 2: power, the default. */
    uint32_t power;
    enum pst_audio_normalized normalized; /* default NO */
    /* Mel bands, 1 to 4096; default 128. */
    uint32_t n_mels;
    /* Lower edge of the first band and upper edge of the last, Hz. f_max 0: rate / 2. */
    float f_min, f_max;
    enum pst_audio_mel_scale mel_scale; /* default HTK */
    enum pst_audio_mel_norm mel_norm;   /* default NONE */
    /* Coefficients that are kept, 1 to the number of bins; default 40. */
    uint32_t n_mfcc;
    /* 10, the default, for a power; 20 for magnitudes. */
    float multiplier;
    /* Least value that is told apart, and the value of 0 dB. Above 0; defaults 1e-10 and 1. */
    float amin, ref;
    /* Largest distance from the sample's largest value, dB. Below 0, the default: no limit. */
    float top_db;
    /* Added before a logarithm, so that 0 has one; default 1e-6. */
    float offset;
    /* Zero crossings of the sinc on each side, 1 to 128; default 6. */
    uint32_t filter_width;
    /* Cut-off in relation to half of the lower rate, above 0, to 1; default 0.99. */
    float rolloff;
};

/* Fills an operation with the defaults of its kind. Set the members that the kind needs afterwards.
 *
 * op: the caller's struct, overwritten as a whole.
 * op_nbytes: sizeof *op.
 * kind: what the operation does. A number outside the list is stored as it is, and pst_loader_open
 *     refuses it.
 *
 * Cannot fail. Any thread. */
void pst_audio_op_init(struct pst_audio_op *op, size_t op_nbytes, enum pst_audio_op_kind kind);

/* What an audio file holds. */
struct pst_audio_info {
    uint32_t rate;      /* samples per second */
    uint32_t channels;  /* 1 or more */
    uint64_t n_samples; /* of each channel */
    char codec[16];     /* "wav", "flac", "ogg", "mp3" or another name */
    uint32_t bits;      /* of a stored sample; 0: compressed with loss */
    bool is_float;
};

/* Finds out what an audio file in memory holds. Of MP3 and Ogg all frames and pages are looked at,
 * of others the headers.
 *
 * bytes, nbytes: the file. Read during the call only.
 * info: the caller's struct; info_nbytes: sizeof *info.
 *
 * PST_ERROR_CORRUPT, PST_ERROR_TRUNCATED: no sound of a known kind, or a damaged one.
 * PST_ERROR_UNSUPPORTED: libsndfile is needed and cannot be opened, or it does not know the kind.
 * PST_ERROR_MEMORY.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_audio_probe(const void *bytes, size_t nbytes,
                                                struct pst_audio_info *info, size_t info_nbytes,
                                                struct pst_error *err);

/* Decodes samples of an audio file in memory: f32, -1..1 at full scale, interleaved (n, channels).
 *
 * bytes, nbytes: the file. Read during the call only.
 * first: number of the first sample of each channel; first + n is at most n_samples of its info.
 * out: n * channels floats, the caller's.
 *
 * The same bits as of the whole file, whatever `first` is.
 *
 * PST_ERROR_ARGUMENT: a range beyond the end. PST_ERROR_CORRUPT: damaged, or a sample that is not a
 *     finite number. The others as of pst_audio_probe.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_audio_decode(const void *bytes, size_t nbytes, uint64_t first,
                                                 size_t n, float *out, struct pst_error *err);

/* Says if libsndfile can be opened. It is looked for by the environment variable PENSTOCK_SNDFILE,
 * the path of a library, else as the system's libsndfile.so.1.
 *
 * version: receives its version, or the reason why there is none; may be NULL. version_nbytes: its
 *     size.
 *
 * Any thread. */
bool pst_audio_has_sndfile(char *version, size_t version_nbytes);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
