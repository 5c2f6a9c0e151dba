/* audio.h - operations on the sound of a sample, as the loader applies them.
 *
 * The loader decodes an audio field whose pst_field_output has decode_audio, and applies a chain to
 * it, which is an array of struct pst_audio_op. The library itself decodes WAV and MP3; FLAC, Ogg
 * and other codecs need libsndfile, which is opened at run time. A waveform is f32 (C,T), channels
 * and samples, with full scale at -1..1. After PST_AUDIO_OP_SPECTROGRAM the array is f32 (C,F,T):
 * channels, frequency bins, frames. Only the samples that the chain needs are decoded, so a clip of
 * 1 second from a file of 30 seconds costs about as much as a file of 1 second.
 *
 * Errors: these are bad samples (pst_loader_options.on_error decides what follows): a file that is
 * damaged, cut short or empty, that has 0 channels or 0 samples per second, or that has decoded
 * samples which are not finite; a sound that is too short for an operation (for clips, if_short
 * decides); a sound whose rate differs from that of its mel bands. If a file needs libsndfile and
 * the library is not installed, the epoch ends with that error. A sound keeps its own sampling rate
 * unless the chain resamples it, so rates may differ between samples.
 *
 * Operations are defined as in torchaudio. Random parameters are a pure function of (seed, epoch,
 * sample, draw, view, operation), as in augment.h. "operation" is a number within the chain: clips
 * are counted separately from all other operations, so adding a gain does not change where clips
 * are cut. */
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

/* The kinds of operations. Each comment names the members of struct pst_audio_op that the kind
 * reads. Numbers are stable. */
enum pst_audio_op_kind {
    /* Mixes all channels to their mean. It is done before a resampling or clip that precedes it in
     * the chain, which changes the result by rounding only. */
    PST_AUDIO_OP_MONO = 1,
    /* Resamples to `rate` samples per second with a Hann-windowed sinc; the ratio is exact. Reads
     * rate, filter_width, rolloff. */
    PST_AUDIO_OP_RESAMPLE = 2,
    /* Cuts out n_samples at a random start, uniform over all starts where the clip fits. Also reads
     * if_short. */
    PST_AUDIO_OP_RANDOM_CLIP = 3,
    /* Cuts out the n_samples in the middle. Also reads if_short. */
    PST_AUDIO_OP_CENTER_CLIP = 4,
    /* Appends zeros to a waveform that is shorter than n_samples. A longer waveform stays as it is.
     */
    PST_AUDIO_OP_PAD_TO = 5,
    /* With probability p, adds a random number of decibels from `range` to the level. */
    PST_AUDIO_OP_GAIN = 6,
    /* With probability p, adds white Gaussian noise at a random signal-to-noise ratio from `range`,
     * in decibels. Each channel's noise is scaled to the power of that channel, so a silent channel
     * stays silent. */
    PST_AUDIO_OP_ADD_NOISE = 7,
    /* Writes `value` over a random run of fewer than mask_max samples (or frames of a spectrogram).
     * The run covers at most the part p of the whole length. */
    PST_AUDIO_OP_TIME_MASK = 8,
    /* Like PST_AUDIO_OP_TIME_MASK along the frequency axis: writes `value` over fewer than mask_max
     * bins. */
    PST_AUDIO_OP_FREQUENCY_MASK = 9,
    /* Makes a spectrogram from: n_fft, win_length, hop_length, pad, window, pad_mode, no_center,
     * power, normalized. */
    PST_AUDIO_OP_SPECTROGRAM = 10,
    /* Sums frequency bins into mel bands. Reads rate, n_mels, f_min, f_max, mel_scale, mel_norm. A
     * sound whose rate is not `rate` is a bad sample. */
    PST_AUDIO_OP_MEL = 11,
    /* Converts to decibels: multiplier * (log10(max(x, amin)) - log10(max(ref, amin))). If top_db
     * >= 0, results below the sample's largest value - top_db are raised to that limit. */
    PST_AUDIO_OP_DECIBEL = 12,
    /* Takes the natural logarithm of x + offset. */
    PST_AUDIO_OP_LOG = 13,
    /* Computes n_mfcc coefficients of a discrete cosine transform (type 2) over the bins. Also
     * reads no_ortho. */
    PST_AUDIO_OP_DCT = 14
};

/* The ways in which a clip operation treats a waveform shorter than n_samples. */
enum pst_audio_short {
    /* Appends zeros to the waveform. */
    PST_AUDIO_SHORT_PAD = 0,
    /* The sample is bad, with PST_ERROR_UNSUPPORTED; pst_loader_options.on_error decides what
     * follows. */
    PST_AUDIO_SHORT_ERROR = 1,
    /* Repeats the waveform from its start. An empty waveform is padded with zeros. */
    PST_AUDIO_SHORT_REPEAT = 2
};

/* Window functions of a spectrogram. All are periodic, which is torch's default. */
enum pst_audio_window {
    /* Hann window: 0.5 - 0.5 cos(angle). */
    PST_AUDIO_WINDOW_HANN = 0,
    /* Hamming window: 0.54 - 0.46 cos(angle). */
    PST_AUDIO_WINDOW_HAMMING = 1,
    /* Blackman window: 0.42 - 0.5 cos(angle) + 0.08 cos(2 angle). */
    PST_AUDIO_WINDOW_BLACKMAN = 2,
    /* No window: all 1. */
    PST_AUDIO_WINDOW_ONES = 3
};

/* Values that fill the positions before the start and after the end of a waveform, which the frames
 * that are centred near its ends cover. */
enum pst_audio_pad_mode {
    /* The waveform mirrored, without repeating the edge sample. It needs more than n_fft / 2
     * samples. */
    PST_AUDIO_PAD_REFLECT = 0,
    /* Zeros. */
    PST_AUDIO_PAD_CONSTANT = 1,
    /* The first or last sample, repeated. */
    PST_AUDIO_PAD_REPLICATE = 2
};

/* The factor by which a spectrogram is multiplied before its power is taken. */
enum pst_audio_normalized {
    /* 1. */
    PST_AUDIO_NORMALIZED_NO = 0,
    /* Multiplies by 1 / sqrt(sum of the squared window). */
    PST_AUDIO_NORMALIZED_WINDOW = 1,
    /* 1 / sqrt(n_fft). */
    PST_AUDIO_NORMALIZED_FRAME_LENGTH = 2
};

/* Formulas that convert a frequency f in hertz to a mel scale. */
enum pst_audio_mel_scale {
    /* HTK's mel scale: 2595 log10(1 + f / 700). */
    PST_AUDIO_MEL_HTK = 0,
    /* Linear below 1000 Hz, logarithmic above, as in Slaney's Auditory Toolbox. */
    PST_AUDIO_MEL_SLANEY = 1
};

/* How the triangular filters that sum bins into mel bands are scaled. */
enum pst_audio_mel_norm {
    /* Each triangle has height 1. */
    PST_AUDIO_MEL_NORM_NONE = 0,
    /* Each triangle has area 1, with its base in hertz. */
    PST_AUDIO_MEL_NORM_SLANEY = 1
};

/* One operation of a chain. `kind` says which members are read (see enum pst_audio_op_kind); the
 * others are ignored. Call pst_audio_op_init first: it sets the defaults of the kind. The loader
 * takes an array of operations, whose element size is pst_loader_options.audio_op_nbytes. */
struct pst_audio_op {
    enum pst_audio_op_kind kind;
    /* Sampling rate in samples per second, 1 to 10000000. */
    uint32_t rate;
    /* Length of a clip or padded waveform in samples of a channel, 1 to 2^31 - 1. */
    uint32_t n_samples;
    enum pst_audio_short if_short; /* default PAD */
    /* Lowest and highest number of decibels, within -200 to 200. The operation draws uniformly
     * between them. */
    float range[2];
    /* Probability of the operation, or the part of the length that a mask may cover: 0 to 1,
     * default 1. */
    float p;
    /* Upper limit of a mask's length in samples, frames or bins, 0 to 2^31 - 1. */
    uint32_t mask_max;
    /* The number that a mask writes; default 0. */
    float value;
    /* Length of a frame and of its FFT in samples, 2 to 65536, with no prime factor above 13.
     * Default 400. */
    uint32_t n_fft;
    /* Length of the window in samples, centred in the frame, 1 to n_fft; 0 = n_fft. */
    uint32_t win_length;
    /* Samples from the start of one frame to the start of the next; 0 = win_length / 2. */
    uint32_t hop_length;
    /* Zeros added at each end of the waveform before a spectrogram is taken; 0 to 65536. */
    uint32_t pad;
    enum pst_audio_window window;     /* default HANN */
    enum pst_audio_pad_mode pad_mode; /* default REFLECT */
    /* True: frames start at multiples of hop_length. False: frames are centred there. */
    bool no_center;
    /* PST_AUDIO_OP_DCT: true leaves out the factors that make the transform orthonormal. */
    bool no_ortho;
    /* What a spectrogram holds. 1: magnitudes; 2 (default): powers. */
    uint32_t power;
    enum pst_audio_normalized normalized; /* default NO */
    /* Number of mel bands, 1 to 4096; default 128. */
    uint32_t n_mels;
    /* Lower edge of the first mel band and upper edge of the last, in Hz. f_max 0 means rate / 2.
     */
    float f_min, f_max;
    enum pst_audio_mel_scale mel_scale; /* default HTK */
    enum pst_audio_mel_norm mel_norm;   /* default NONE */
    /* Number of DCT coefficients to keep, 1 to the number of bins; default 40. */
    uint32_t n_mfcc;
    /* Factor of PST_AUDIO_OP_DECIBEL: 10 (default) for powers, 20 for magnitudes. */
    float multiplier;
    /* PST_AUDIO_OP_DECIBEL: `amin` replaces smaller values, `ref` is the value of 0 dB. Both are
     * above 0; defaults 1e-10 and 1. */
    float amin, ref;
    /* Largest distance in dB below the sample's largest value. Negative (default): no limit. */
    float top_db;
    /* PST_AUDIO_OP_LOG: number added before the logarithm, so that 0 has one; default 1e-6. */
    float offset;
    /* Zero crossings of the resampling sinc on each side of its centre, 1 to 128; default 6. */
    uint32_t filter_width;
    /* Cut-off frequency of resampling as a part of half the lower rate, above 0, up to 1; default
     * 0.99. */
    float rolloff;
};

/* Sets an operation to the defaults of its kind. Set the members that the kind reads afterwards.
 *
 * op: the caller's struct; all of it is overwritten.
 * op_nbytes: sizeof *op.
 * kind: which operation it is. An unknown number is stored as it is; pst_loader_open refuses it.
 *
 * Cannot fail. Any thread. */
void pst_audio_op_init(struct pst_audio_op *op, size_t op_nbytes, enum pst_audio_op_kind kind);

/* Properties of an audio file. */
struct pst_audio_info {
    uint32_t rate;      /* samples per second */
    uint32_t channels;  /* 1 or more */
    uint64_t n_samples; /* of each channel */
    char codec[16];     /* "wav", "flac", "ogg", "mp3" or another codec's name */
    uint32_t bits;      /* bits of a stored sample; 0: lossy compression */
    bool is_float;
};

/* Reads the properties of an audio file in memory. For MP3 and Ogg this scans all frames and pages,
 * for other formats the headers only.
 *
 * bytes, nbytes: the file. Read during the call only.
 * info: the caller's struct; info_nbytes: sizeof *info.
 *
 * PST_ERROR_CORRUPT, PST_ERROR_TRUNCATED: the bytes are no sound of a known format, or are damaged.
 * PST_ERROR_UNSUPPORTED: the format needs libsndfile, which cannot be opened or does not know it.
 * PST_ERROR_MEMORY.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_audio_probe(const void *bytes, size_t nbytes,
                                                struct pst_audio_info *info, size_t info_nbytes,
                                                struct pst_error *err);

/* Decodes a range of an audio file in memory to f32 (n, channels), interleaved, full scale -1..1.
 *
 * bytes, nbytes: the file. Read during the call only.
 * first: index of the first sample to decode of each channel; first + n <=
 *     pst_audio_info.n_samples.
 * out: the caller's array of n * channels floats.
 *
 * The decoded bits do not depend on where the range begins.
 *
 * PST_ERROR_ARGUMENT: the range goes beyond the end. PST_ERROR_CORRUPT: the file is damaged, or a
 *     sample is not a finite number. Other errors: see pst_audio_probe.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_audio_decode(const void *bytes, size_t nbytes, uint64_t first,
                                                 size_t n, float *out, struct pst_error *err);

/* True if libsndfile can be opened: the library at the path in the environment variable
 * PENSTOCK_SNDFILE if that is set, else the system's libsndfile.so.1.
 *
 * version: receives the version of libsndfile, or the reason why it cannot be opened; may be NULL.
 * version_nbytes: size of that buffer.
 *
 * Any thread. */
bool pst_audio_has_sndfile(char *version, size_t version_nbytes);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
