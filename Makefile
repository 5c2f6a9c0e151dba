# The commands people type. CMake does the building (CMakePresets.json); this file only sets up and calls it.
#
# Everything made lies in .venv, build and bench/out. NINJAFLAGS=-j1 and the like is honoured.
SHELL := /bin/bash
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 600
NINJAFLAGS ?=

# Tools that .venv brings come first; a cmake or ninja of the system serves where it brings none.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Compilers called through ccache where there is one.
export CMAKE_C_COMPILER_LAUNCHER ?= $(shell command -v ccache 2>/dev/null)

STAMPS := .venv/.stamps
STARTED := $(shell date +%s)
PACKAGE_SOURCES := CMakeLists.txt $(shell find src include cmake tools python third_party -type f \
	-not -path '*/__pycache__/*' -not -path '*/build/*' -not -path 'python/tests/*' \
	-not -name '*.egg-info' -not -name '*.o' 2>/dev/null)

# All targets here but files of build and .venv are names only.
.PHONY: $(shell sed -n 's/^\([a-z][a-z0-9-]*\):.*/\1/p' $(firstword $(MAKEFILE_LIST)))
.DEFAULT_GOAL := help

help:
	@echo "make build                    set up, then penstock and 'import penstock' in .venv/bin"
	@echo "make check                    set up, build the library in four ways, run every test; each step beside its budget of seconds"
	@echo "make check-long               the slower suites: more builds, TSan and ASan of more, fuzz targets, the site, wheels, other Pythons"
	@echo "make check-containers         containers made by other software, each in an environment of its own, hold what they should"
	@echo "make check-ray                tests of penstock.ray and penstock.spark with Ray (newest, oldest) and Spark, in environments of their own"
	@echo "make check-torchft            tests of penstock.torchft with torchft, in an environment of its own"
	@echo "make check-newest             a wheel beside the newest releases of torch, Lightning, Transformers, HiGHS, ...; NEWEST_ARGS='--large'"
	@echo "make check-arm64              the tests of C, built for 64-bit ARM and run under qemu; ARM_TESTS='-R test_pli'"
	@echo "make docs                     guide, pages and references of Python and C as a site with a search: build/site/index.html"
	@echo "make demo                     pack, analyze, plan, train, interrupt, resume: on bundled photographs"
	@echo "make bench                    benchmarks of the library; figures into bench/out/*.json"
	@echo "make bench-peers              the loader beside other loaders; PEERS_ARGS='--groups imagenet --peers penstock*,dali'"
	@echo "                              images: DATA=FOLDER, any one, of JPEGs or of PNGs of 768 x 768 and more; else ../shared/data"
	@echo "make bench-codec              PLI beside other lossless image codecs, L3 among them; DATA=FOLDER of images, or of folders of them"
	@echo "make bench-jpeg               JPEGs kept as PLI beside libjpeg-turbo; DATA=FOLDER of JPEGs"
	@echo "make bench-cache              epochs over a set larger than memory: the cache, the page cache, DALI; DATA=FOLDER of JPEGs, CACHE_ARGS='--rates 15'"
	@echo "make bench-images             images per GiB of a cache and their speed, beside arrays, PIL and OpenCV; IMAGES_ARGS='--groups imagenet'"
	@echo "make bench-training           a cache that keeps images at the training size, beside caches of whole images; DATA=FOLDER of images"
	@echo "make bench-recode             JPEGs that idle workers re-code into the cache: first epoch, share, later epochs; RECODE_ARGS='--rounds 5'"
	@echo "make bench-fleet              a fleet's client beside a raw socket; epochs of several hosts that share a set; FLEET_ARGS='--rates 15'"
	@echo "make bench-ahead              reading ahead in the order of coming epochs into a fleet: two hosts; AHEAD_ARGS='--cases start'"
	@echo "make bench-fed                accelerators of MLPerf Storage that one core feeds, pixels included; FED_ARGS='--peers penstock*'"
	@echo "make bench-share              1, 2, 4, 8 jobs on one host: share, loaders of their own, TensorSocket, tf.data service; SHARE_ARGS='--short'"
	@echo "make bench-whatif             predictions of whatif against runs; the first call predicts, the second measures; WHATIF_ARGS=--alone"
	@echo "make bench-models             networks that train here, and what of their time is a stall; MODELS_ARGS='--models resnet18'"
	@echo "make bench-stalls             what part of an epoch is a stall: nine models, caches of 25 to 100 %, before and with Penstock; STALLS_ARGS='--checks 2'"
	@echo "make bench-ladder             which optimisation pays when: each alone, each left out of all; LADDER_ARGS='--markdown docs/internals/ladder.md'"
	@echo "make bench-mix                mixes of forms beside single forms, solved and measured; MIX_ARGS='--groups frames'"
	@echo "make bench-quality            accuracy after equal work: JPEG, WebP, PLI lossless and near-lossless; QUALITY_ARGS='--seeds 1 2 3 4 5'"
	@echo "make bench-audio              1 s at 8 kHz out of clips of 30 s beside soundfile, torchaudio, DALI; AUDIO_ARGS='--cores 1 2 --features'"
	@echo "make bench-audio-accuracy     what examples/train_audio.py reaches on speakers it has not heard; DATA=FOLDER of spoken digits"
	@echo "make bench-tasks              recipes of classification, detection, segmentation beside torchvision v2 and DALI; TASKS_ARGS='--tasks detect'"
	@echo "make bench-records            raw files, TFRecord, RecordIO, tar, .pst: DALI, tf.data, torch, WebDataset, Penstock; RECORDS_ARGS='--forms tar,pst*'"
	@echo "make bench-parts              pack, repack, verify, index by two parts on two cores beside one part on one; PARTS_ARGS='--rounds 3'"
	@echo "make bench-sources            tars in place: Penstock, WebDataset, wids, Energon, DALI, tf.data, torch; SOURCES_ARGS='--cores 1'"
	@echo "                              containers beside their own libraries: SOURCES_ARGS='containers --groups parquet,mds'; --short tries them"
	@echo "make bench-endtoend           training time: DALI, torchvision, Penstock, over networks, data, machines; ENDTOEND_ARGS='--sets frames'"
	@echo "make bench-slow-samples       1 % of the samples cost 50 times as much: in-order loaders and Penstock; SLOW_ARGS='--rounds 3'"
	@echo "make bench-short-epochs       epochs of 1 to 8 batches with emulated steps: what is lost between two epochs; SHORT_ARGS='--rounds 5'"
	@echo "make bench-second-half        crop, resize, flip, normalise, store, beside Pillow, OpenCV, torchvision, DALI; SECOND_ARGS='--before OTHER/bench_augment'"
	@echo "make bench-start              install, import, first batch: the wheel beside Pillow, simplejpeg, TorchCodec, SPDL, FFCV, DALI; make wheels first"
	@echo "make bench-scaled             Loader(scaled_decode=True): pixels and speed; DATA=FOLDER of JPEGs"
	@echo "make bench-memory             what a process with a loader takes; DATA=DATA SET or folder"
	@echo "make bench-meter              what the meter costs; DATA=DATA SET or folder"
	@echo "make bench-sweep              plans beside a whole grid of forms, caches, threads and orders; SWEEP_ARGS='--rounds 1'"
	@echo "make bench-gpu                kernels, loaders and training on this machine's GPU; GPU_ARGS='pli-jpeg training'"
	@echo "make bench-pages              the page-aware order beside random order; PAGES_ARGS='--settings throttle --rounds 5'"
	@echo "make bench-dlio DLIO=FOLDER   MLPerf Storage's program with Penstock and with its own loader; FOLDER: its source"
	@echo "make fuzz FUZZ_SECONDS=600    every fuzz target for that long; findings into build/fuzz-findings"
	@echo "make install PREFIX=/usr/local  C library, headers, penstock.pc, CMake package, command line"
	@echo "make wheels                   wheels for x86-64 and AArch64, for any Linux with glibc 2.17, into build/dist; WHEELS_ARGS='--arch x86_64'"
	@echo "make stranger                 those wheels installed and run in root file systems that have only Python (as root)"
	@echo "make release                  sdist, wheels, source archive, SBOM, notes, sums into build/release; RELEASE_ARGS=--twice"
	@echo "make format                   clang-format over all C files"
	@echo "make clean                    removes build, .venv and what demo and bench made"

system:
	@scripts/setup.sh build
system-check:
	@scripts/setup.sh check
system-fuzz:
	@scripts/setup.sh fuzz

$(STAMPS)/build: scripts/setup_venv.sh python/pyproject.toml python/constraints.txt | system
	scripts/setup_venv.sh build
	@mkdir -p $(STAMPS) && touch $@
$(STAMPS)/check: $(STAMPS)/build
	scripts/setup_venv.sh check
	@touch $@
$(STAMPS)/site: $(STAMPS)/build
	scripts/setup_venv.sh site
	@touch $@
test-packages: $(STAMPS)/check $(STAMPS)/site

# Build isolation would fetch the build requirements anew each time; setup_venv.sh has put them there. PST_INSTALL: the same objects
# are installed for C programs by a step of `make check`.
$(STAMPS)/package: $(STAMPS)/build $(PACKAGE_SOURCES)
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation \
		--config-settings=build-dir=$(CURDIR)/build/package --config-settings=cmake.define.PST_INSTALL=ON \
		--constraint python/constraints.txt ./python
	@touch $@

build: system $(STAMPS)/package
	@echo "ready: .venv/bin/penstock, .venv/bin/python -c 'import penstock'"

check: system-check build test-packages
	.venv/bin/python scripts/check.py --set-up-since $(STARTED)

check-long: system-fuzz build test-packages
	.venv/bin/python scripts/check.py --long

check-containers: build test-packages
	.venv/bin/python scripts/check_containers.py

check-ray: build test-packages
	.venv/bin/python scripts/check_ray.py

check-torchft: build test-packages
	.venv/bin/python scripts/check_torchft.py

check-newest: build
	.venv/bin/python scripts/check_newest.py $(NEWEST_ARGS)

check-arm64: $(STAMPS)/build
	scripts/check_arm64.sh $(ARM_TESTS)

docs: build $(STAMPS)/site
	.venv/bin/python scripts/build_site.py

demo: build test-packages
	.venv/bin/python examples/demo.py

build/release/build.ninja: | $(STAMPS)/build
	cmake --preset release

bench: system-check $(STAMPS)/build build/release/build.ninja
	ninja -C build/release $(NINJAFLAGS)
	.venv/bin/python scripts/bench.py build/release bench/out

bench-peers: system $(STAMPS)/build
	bash bench/loader/run.sh $(PEERS_ARGS)

bench-codec: system $(STAMPS)/build
	bash bench/codec/run.sh $(CODEC_ARGS)

bench-jpeg: system $(STAMPS)/build
	bash bench/codec/run.sh jpeg

bench-cache: build
	bash bench/cache/run.sh $(CACHE_ARGS)

bench-images: build test-packages
	bash bench/cache/run.sh images $(IMAGES_ARGS)

bench-training: build
	@mkdir -p bench/out
	.venv/bin/python bench/cache/training.py $(or $(DATA),../shared/data/imagenet_folder) --json bench/out/training.json $(TRAINING_ARGS)

bench-recode: build test-packages
	bash bench/cache/run.sh recode $(RECODE_ARGS)

bench-fed: system $(STAMPS)/build
	bash bench/fed/run.sh $(FED_ARGS)

bench-share: system $(STAMPS)/build
	bash bench/share/run.sh $(SHARE_ARGS)

bench-whatif: build test-packages
	bash bench/whatif/run.sh $(WHATIF_ARGS)

bench-models: system $(STAMPS)/build
	bash bench/models/run.sh $(MODELS_ARGS)

bench-mix: build
	bash bench/mix/run.sh $(MIX_ARGS)

bench-stalls: system $(STAMPS)/build
	bash bench/stalls/run.sh $(STALLS_ARGS)

bench-ladder: build test-packages
	bash bench/ladder/run.sh $(LADDER_ARGS)

bench-tasks: system $(STAMPS)/build
	bash bench/tasks/run.sh $(TASKS_ARGS)

bench-records: build test-packages
	bash bench/records/run.sh $(RECORDS_ARGS)

bench-parts: system $(STAMPS)/build
	bash bench/parts/run.sh $(PARTS_ARGS)

bench-sources: build test-packages
	bash bench/sources/run.sh $(SOURCES_ARGS)

bench-endtoend: build test-packages
	bash bench/endtoend/run.sh $(ENDTOEND_ARGS)

bench-quality: build test-packages
	bash bench/quality/run.sh $(QUALITY_ARGS)

# Peers take part where .venv has them: .venv/bin/pip install torchvision opencv-python-headless nvidia-dali-cuda130
bench-second-half: system-check $(STAMPS)/build test-packages build/release/build.ninja
	ninja -C build/release $(NINJAFLAGS) bench_augment
	@mkdir -p bench/out
	.venv/bin/python bench/second_half.py build/release/bench/bench_augment --peers --json bench/out/second-half.json $(SECOND_ARGS)

bench-start: build
	bash bench/start/run.sh $(START_ARGS)

bench-slow-samples: build test-packages
	@mkdir -p bench/out
	.venv/bin/python bench/loader/slow_samples.py $(or $(DATA),../shared/data) build/slow-samples --json bench/out/slow_samples.json $(SLOW_ARGS)

bench-short-epochs: build test-packages
	.venv/bin/python bench/loader/short_epochs.py --data $(or $(DATA),../shared/data/imagenet_folder) --out bench/out $(SHORT_ARGS)

bench-scaled: build
	.venv/bin/python bench/loader/scaled_decode.py $(or $(DATA),../shared/data/imagenet_folder) $(SCALED_ARGS)

bench-memory: build
	.venv/bin/python bench/loader/memory.py $(or $(DATA),../shared/data/imagenet_folder) $(MEMORY_ARGS)

bench-meter: build
	.venv/bin/python bench/loader/meter_cost.py $(or $(DATA),../shared/data/imagenet_folder) $(METER_ARGS)

bench-sweep: build
	bash bench/mix/run.sh sweep $(SWEEP_ARGS)

# A folder of programs and data is put together first, which another machine can run, too.
bench-gpu: build test-packages
	.venv/bin/python scripts/check_gpu.py --out bench/out $(or $(GPU_ARGS),bench)

bench-pages: build
	bash bench/pages/run.sh $(PAGES_ARGS)

bench-dlio: build test-packages
	DLIO=$(DLIO) bash bench/dlio/run.sh $(DLIO_ARGS)

bench-audio: system-check build test-packages
	.venv/bin/python bench/audio/clips.py --data bench/out/clips --build $(or $(PEERS_BUILD),build/peers) --out bench/out $(AUDIO_ARGS)

bench-audio-accuracy: build test-packages
	.venv/bin/python bench/audio/accuracy.py $(or $(DATA),../shared/data/audio) --out bench/out $(ACCURACY_ARGS)

bench-fleet: system-check build build/release/build.ninja
	ninja -C build/release $(NINJAFLAGS) bench_fleet
	.venv/bin/python scripts/bench.py build/release bench/out --only bench_fleet
	.venv/bin/python bench/fleet/fleet.py --out bench/out $(FLEET_ARGS)

bench-ahead: system-check build
	.venv/bin/python bench/fleet/ahead.py --out bench/out $(AHEAD_ARGS)

fuzz: system-fuzz $(STAMPS)/build
	cmake --preset fuzz
	ninja -C build/fuzz $(NINJAFLAGS) fuzz_targets
	.venv/bin/python scripts/fuzz.py build/fuzz --seconds $(FUZZ_SECONDS)

wheels: $(STAMPS)/build
	.venv/bin/python scripts/wheels.py $(WHEELS_ARGS)

stranger: build test-packages
	.venv/bin/python -m pytest -q -rs -p no:cacheprovider tests/scripts/stranger_of_wheel.py

release: $(STAMPS)/build
	.venv/bin/python scripts/release.py $(RELEASE_ARGS)

install: $(STAMPS)/build
	cmake -G Ninja -S . -B build/install -DCMAKE_BUILD_TYPE=Release -DPST_WERROR=OFF \
		-DCMAKE_INSTALL_PREFIX=$(abspath $(PREFIX))
	ninja -C build/install $(NINJAFLAGS)
	cmake --install build/install

format:
	git ls-files '*.c' '*.h' | xargs clang-format -i

clean:
	rm -rf build .venv demo-out bench/out python/build
