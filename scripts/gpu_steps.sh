# gpu_steps.sh - sourced by tests/gpu/run.sh and bench/gpu/run.sh: what a GPU's machine is asked to do, step by step.
#
# Such a machine is often lent for minutes, and a command there ends without warning. So each step has a limit of its own, and
# all together have PST_GPU_SECONDS (540). The JSON file has the results after each step, and single steps can be selected by
# name. A step for which no time was left is reported as "left out". Results go into few files, because machines return only
# few.

# steps_begin WHAT CARRY OUT [STEP...]: the files are OUT/gpu-WHAT.json and .log; without steps all run. $steps_work is a
# temporary folder until the end.
steps_begin() {
    steps_what=$1 steps_carry=$2 steps_out=$3
    shift 3
    steps_wanted=" $* " steps_lines="" steps_failed=0 steps_end=$((SECONDS + ${PST_GPU_SECONDS:-540}))
    steps_gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)
    steps_work=$(mktemp -d)
    trap 'rm -rf "$steps_work"' EXIT
    mkdir -p "$steps_out" "$steps_work/lib"
    : >"$steps_out/gpu-$steps_what.log"
    # Libraries of the system go first, because the carried ones may be too old for its Python and its torch.
    local library
    for library in "$steps_carry"/lib/*; do
        ldconfig -p 2>/dev/null | grep -q "^[[:space:]]*$(basename "$library") " || ln -s "$library" "$steps_work/lib/"
    done
    export LD_LIBRARY_PATH=$steps_work/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export PENSTOCK_CUDA_KERNELS=${PENSTOCK_CUDA_KERNELS:-$steps_carry/lib/libpenstock_cuda.so}
    export PYTHONPATH=$steps_carry/python${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1
}

steps_record() { # name, what became of it as JSON
    steps_lines+="${steps_lines:+,}"$'\n'"  \"$1\": $2"
    printf '{"what": "gpu %s", "gpu": "%s", "commit": "%s", "steps": {%s\n}}\n' "$steps_what" "$steps_gpu" \
        "$(cat "$steps_carry/commit" 2>/dev/null)" "$steps_lines" >"$steps_out/gpu-$steps_what.json"
}

# step NAME SECONDS COMMAND...: runs a command for at most SECONDS. $steps_status is its status, empty if it was not begun; 77:
# the machine lacks something that the step needs.
step() {
    local name=$1 limit=$2 left=$((steps_end - SECONDS)) begin=$SECONDS log=$steps_out/gpu-$steps_what.log from
    shift 2
    steps_status=
    [ "$steps_wanted" = "  " ] || [[ $steps_wanted == *" $name "* ]] || return 0
    if [ "$left" -lt 10 ]; then
        echo "== $name: no time left"
        steps_failed=1
        steps_record "$name" '"left out"'
        return 0
    fi
    echo "== $name" | tee -a "$log"
    from=$(stat -c %s "$log")
    timeout -k 5 $((limit < left ? limit : left)) "$@" >>"$log" 2>&1
    steps_status=$?
    # What compute-sanitizer says where its access to the GPU is shut off: nothing was tested, nothing is wrong.
    tail -c +$((from + 1)) "$log" | grep -q "Device not supported" && steps_status=77
    tail -c +$((from + 1)) "$log" | tail -n 5
    [ "$steps_status" -eq 0 ] || [ "$steps_status" -eq 77 ] || steps_failed=1
    steps_record "$name" "{\"status\": $steps_status, \"seconds\": $((SECONDS - begin))}"
}

steps_finish() {
    cat "$steps_out/gpu-$steps_what.json"
    exit "$steps_failed"
}
