# Completion of penstock's words in bash. Made by scripts/write_cli_pages.py of the tables of options: change these.

_penstock_options() # VERB: its options
{
    case $1 in
    '') echo '--help -h --version -V --completion' ;;
    'pack') echo '--form -f --mask-form --tier -t --effort -e --max-error --of-lossy --plan --resize --made-for --workers -w --resume -r --verify-samples --verify-pixels --on-error --shard-size -s --commit-size --part --prepare --labels -l --masks --ignore-labels --allow-unreadable --split --members --coco --voc --citypersons --paint --bad-annotations --yolo --cvat --labelme --roboflow --colours --croissant --record-set --join --from --json --quiet --help -h' ;;
    'append') echo '--form -f --mask-form --tier -t --effort -e --max-error --of-lossy --resize --add-classes --workers -w --resume -r --verify-samples --verify-pixels --on-error --shard-size -s --commit-size --labels -l --masks --ignore-labels --allow-unreadable --split --members --json --quiet --help -h' ;;
    'repack') echo '--form -f --mask-form --tier -t --effort -e --max-error --of-lossy --plan --resize --made-for --workers -w --resume -r --verify-samples --verify-pixels --on-error --shard-size -s --commit-size --part --prepare --split --members --json --quiet --help -h' ;;
    'merge') echo '--json --quiet --help -h' ;;
    'info') echo '--all -a --croissant --labels --masks --ignore-labels --allow-unreadable --split --members --json --quiet --help -h' ;;
    'ls') echo '--long -l --range -r --labels --masks --ignore-labels --allow-unreadable --split --members --json --quiet --help -h' ;;
    'cat') echo '--field -f --variant -k --name -n --output -o --force --as -a --original -O --pixels -p --tier -t --effort -e --max-error --indices -i --labels --masks --ignore-labels --allow-unreadable --split --members --json --quiet --help -h' ;;
    'unpack') echo '--workers -w --resume -r --on-error --split --members --json --quiet --help -h' ;;
    'verify') echo '--decode -d --restore -r --workers -w --labels --masks --ignore-labels --allow-unreadable --split --members --part --summary --json --quiet --help -h' ;;
    'index') echo '--check --sums --labels --masks --ignore-labels --allow-unreadable --split --members --part --merge --json --quiet --help -h' ;;
    'view') echo '--field -f --box-labels --name -n --batch -b --transforms -t --epoch --epochs -e --seed --output -o --force --size -s --columns -c --labels --masks --ignore-labels --allow-unreadable --split --members --json --quiet --help -h' ;;
    'serve') echo '--memory -m --threads -t --numa --linger --keep -k --detach -d --socket --json --quiet --help -h' ;;
    'cache') echo '--force --socket --json --quiet --help -h' ;;
    'cache fleet') echo '--memory -m --servers --max-item --listen -l --port -p --socket -s --threads -t --auth-file --user -u --flash --flash-size --run --json --quiet --help -h' ;;
    'top') echo '--once -1 --interval -n --socket --json --quiet --help -h' ;;
    'bench') echo '--batch-size -b --workers -w --epochs -e --op --device --seed --host-memory --on-error --labels --masks --ignore-labels --allow-unreadable --split --members --json --quiet --help -h' ;;
    'doctor') echo '--json --quiet --help -h' ;;
    'analyze') echo '--train --command --rate --as --accelerators --budget --wait-quiet --batch-size --transforms -t --size --fields --per-box --labels --masks --ignore-labels --allow-unreadable --split --members --forms --machine --skip --finish --out --html --force --json --quiet --help -h' ;;
    'whatif') echo '--cores --workers --prefetch --batch-size --ranks --jobs --hosts --cache --page-cache --policy --storage --reads --network --link --copying --epoch-batches --epoch-pause --gpu-speed --gpu-free --gpu-part --form --decode --shared-cache --shared-preparation --machine --utilisation --html --force --json --quiet --help -h' ;;
    'plan') echo '--train --rate --as --accelerators --budget --wait-quiet --batch-size --transforms -t --size --fields --per-box --labels --masks --ignore-labels --allow-unreadable --split --members --forms --goal --least-rate --storage-limit --cache --page-cache --epochs --max-error --copies --training-size --machines --machine --no-layout --schedule --out --force --json --quiet --help -h' ;;
    'tune') echo '--train --rate --as --accelerators --budget --wait-quiet --loader --batch-size --transforms -t --size --fields --per-box --labels --masks --ignore-labels --allow-unreadable --split --members --storage-limit --cache --page-cache --epochs --max-error --copies --training-size --yes -y --out --plan --report --json --quiet --help -h' ;;
    'env') echo '--json --quiet --help -h' ;;
    esac
}

_penstock_value() # VERB OPTION: what its value is; nothing: it has none. A comma at the beginning: a list with commas
{
    case "$1 $2" in
    ' --completion') echo 'bash zsh fish' ;;
    'pack --form' | 'pack -f') echo ',pli-jpeg original raw pli jpeg png webp' ;;
    'pack --mask-form') echo ',pli-jpeg original raw pli jpeg png webp' ;;
    'pack --tier' | 'pack -t') echo 'fast small dense' ;;
    'pack --effort' | 'pack -e') echo ':other' ;;
    'pack --max-error') echo ':other' ;;
    'pack --plan') echo ':file' ;;
    'pack --resize') echo ':other' ;;
    'pack --made-for') echo 'upright stored' ;;
    'pack --workers' | 'pack -w') echo ':other' ;;
    'pack --on-error') echo 'stop skip' ;;
    'pack --shard-size' | 'pack -s') echo ':other' ;;
    'pack --commit-size') echo ':other' ;;
    'pack --part') echo ':other' ;;
    'pack --labels' | 'pack -l') echo ':file' ;;
    'pack --masks') echo ':other' ;;
    'pack --split') echo ':other' ;;
    'pack --members') echo ':other' ;;
    'pack --coco') echo ':file' ;;
    'pack --paint') echo ':other' ;;
    'pack --bad-annotations') echo 'stop drop' ;;
    'pack --colours') echo ':other' ;;
    'pack --record-set') echo ':other' ;;
    'pack --join') echo ':other' ;;
    'pack --from') echo ':other' ;;
    'append --form' | 'append -f') echo ',pli-jpeg original raw pli jpeg png webp' ;;
    'append --mask-form') echo ',pli-jpeg original raw pli jpeg png webp' ;;
    'append --tier' | 'append -t') echo 'fast small dense' ;;
    'append --effort' | 'append -e') echo ':other' ;;
    'append --max-error') echo ':other' ;;
    'append --resize') echo ':other' ;;
    'append --workers' | 'append -w') echo ':other' ;;
    'append --on-error') echo 'stop skip' ;;
    'append --shard-size' | 'append -s') echo ':other' ;;
    'append --commit-size') echo ':other' ;;
    'append --labels' | 'append -l') echo ':file' ;;
    'append --masks') echo ':other' ;;
    'append --split') echo ':other' ;;
    'append --members') echo ':other' ;;
    'repack --form' | 'repack -f') echo ',pli-jpeg original raw pli jpeg png webp' ;;
    'repack --mask-form') echo ',pli-jpeg original raw pli jpeg png webp' ;;
    'repack --tier' | 'repack -t') echo 'fast small dense' ;;
    'repack --effort' | 'repack -e') echo ':other' ;;
    'repack --max-error') echo ':other' ;;
    'repack --plan') echo ':file' ;;
    'repack --resize') echo ':other' ;;
    'repack --made-for') echo 'upright stored' ;;
    'repack --workers' | 'repack -w') echo ':other' ;;
    'repack --on-error') echo 'stop skip' ;;
    'repack --shard-size' | 'repack -s') echo ':other' ;;
    'repack --commit-size') echo ':other' ;;
    'repack --part') echo ':other' ;;
    'repack --split') echo ':other' ;;
    'repack --members') echo ':other' ;;
    'info --croissant') echo ':file' ;;
    'info --labels') echo ':file' ;;
    'info --masks') echo ':other' ;;
    'info --split') echo ':other' ;;
    'info --members') echo ':other' ;;
    'ls --range' | 'ls -r') echo ':other' ;;
    'ls --labels') echo ':file' ;;
    'ls --masks') echo ':other' ;;
    'ls --split') echo ':other' ;;
    'ls --members') echo ':other' ;;
    'cat --field' | 'cat -f') echo ':other' ;;
    'cat --variant' | 'cat -k') echo ':other' ;;
    'cat --output' | 'cat -o') echo ':file' ;;
    'cat --as' | 'cat -a') echo 'png pli pli-jpeg pnm raw' ;;
    'cat --tier' | 'cat -t') echo 'fast small dense' ;;
    'cat --effort' | 'cat -e') echo ':other' ;;
    'cat --max-error') echo ':other' ;;
    'cat --labels') echo ':file' ;;
    'cat --masks') echo ':other' ;;
    'cat --split') echo ':other' ;;
    'cat --members') echo ':other' ;;
    'unpack --workers' | 'unpack -w') echo ':other' ;;
    'unpack --on-error') echo 'stop skip' ;;
    'unpack --split') echo ':other' ;;
    'unpack --members') echo ':other' ;;
    'verify --workers' | 'verify -w') echo ':other' ;;
    'verify --labels') echo ':file' ;;
    'verify --masks') echo ':other' ;;
    'verify --split') echo ':other' ;;
    'verify --members') echo ':other' ;;
    'verify --part') echo ':other' ;;
    'index --labels') echo ':file' ;;
    'index --masks') echo ':other' ;;
    'index --split') echo ':other' ;;
    'index --members') echo ':other' ;;
    'index --part') echo ':other' ;;
    'view --field' | 'view -f') echo ':other' ;;
    'view --box-labels') echo ':other' ;;
    'view --transforms' | 'view -t') echo ':file' ;;
    'view --epoch') echo ':other' ;;
    'view --epochs' | 'view -e') echo ':other' ;;
    'view --seed') echo ':other' ;;
    'view --output' | 'view -o') echo ':file' ;;
    'view --size' | 'view -s') echo ':other' ;;
    'view --columns' | 'view -c') echo ':other' ;;
    'view --labels') echo ':file' ;;
    'view --masks') echo ':other' ;;
    'view --split') echo ':other' ;;
    'view --members') echo ':other' ;;
    'serve --memory' | 'serve -m') echo ':other' ;;
    'serve --threads' | 'serve -t') echo ':other' ;;
    'serve --numa') echo 'auto none' ;;
    'serve --linger') echo ':other' ;;
    'serve --socket') echo ':file' ;;
    'cache --socket') echo ':file' ;;
    'cache fleet --memory' | 'cache fleet -m') echo ':other' ;;
    'cache fleet --servers') echo ':other' ;;
    'cache fleet --max-item') echo ':other' ;;
    'cache fleet --listen' | 'cache fleet -l') echo ':other' ;;
    'cache fleet --port' | 'cache fleet -p') echo ':other' ;;
    'cache fleet --socket' | 'cache fleet -s') echo ':file' ;;
    'cache fleet --threads' | 'cache fleet -t') echo ':other' ;;
    'cache fleet --auth-file') echo ':file' ;;
    'cache fleet --user' | 'cache fleet -u') echo ':other' ;;
    'cache fleet --flash') echo ':file' ;;
    'cache fleet --flash-size') echo ':other' ;;
    'top --interval' | 'top -n') echo ':other' ;;
    'top --socket') echo ':file' ;;
    'bench --batch-size' | 'bench -b') echo ':other' ;;
    'bench --workers' | 'bench -w') echo ':other' ;;
    'bench --epochs' | 'bench -e') echo ':other' ;;
    'bench --op') echo 'rrc224 crop768 none' ;;
    'bench --device') echo 'cpu cuda' ;;
    'bench --seed') echo ':other' ;;
    'bench --host-memory') echo ':other' ;;
    'bench --on-error') echo 'stop skip' ;;
    'bench --labels') echo ':file' ;;
    'bench --masks') echo ':other' ;;
    'bench --split') echo ':other' ;;
    'bench --members') echo ':other' ;;
    'analyze --train') echo ':other' ;;
    'analyze --command') echo ':other' ;;
    'analyze --rate') echo ':other' ;;
    'analyze --as') echo ':other' ;;
    'analyze --accelerators') echo ':other' ;;
    'analyze --budget') echo ':other' ;;
    'analyze --wait-quiet') echo ':other' ;;
    'analyze --batch-size') echo ':other' ;;
    'analyze --transforms' | 'analyze -t') echo ':file' ;;
    'analyze --size') echo ':other' ;;
    'analyze --fields') echo ':other' ;;
    'analyze --per-box') echo ':other' ;;
    'analyze --labels') echo ':file' ;;
    'analyze --masks') echo ':other' ;;
    'analyze --split') echo ':other' ;;
    'analyze --members') echo ':other' ;;
    'analyze --forms') echo ',jpeg pli-jpeg png webp pli-fast pli-small pli-dense raw' ;;
    'analyze --machine') echo ':file' ;;
    'analyze --skip') echo ':other' ;;
    'analyze --out') echo ':file' ;;
    'analyze --html') echo ':file' ;;
    'whatif --cores') echo ':other' ;;
    'whatif --workers') echo ':other' ;;
    'whatif --prefetch') echo ':other' ;;
    'whatif --batch-size') echo ':other' ;;
    'whatif --ranks') echo ':other' ;;
    'whatif --jobs') echo ':other' ;;
    'whatif --hosts') echo ':other' ;;
    'whatif --cache') echo ':other' ;;
    'whatif --page-cache') echo ':other' ;;
    'whatif --policy') echo ',minio random lru lru-sequential' ;;
    'whatif --storage') echo ':other' ;;
    'whatif --reads') echo ':other' ;;
    'whatif --network') echo ':other' ;;
    'whatif --link') echo ':other' ;;
    'whatif --copying') echo ':other' ;;
    'whatif --epoch-batches') echo ':other' ;;
    'whatif --epoch-pause') echo ':other' ;;
    'whatif --gpu-speed') echo ':other' ;;
    'whatif --gpu-free') echo ':other' ;;
    'whatif --gpu-part') echo ':other' ;;
    'whatif --form') echo ',jpeg pli-jpeg png webp pli-fast pli-small pli-dense raw' ;;
    'whatif --decode') echo ',cpu gpu' ;;
    'whatif --machine') echo ':file' ;;
    'whatif --utilisation') echo ':other' ;;
    'whatif --html') echo ':file' ;;
    'plan --train') echo ':other' ;;
    'plan --rate') echo ':other' ;;
    'plan --as') echo ':other' ;;
    'plan --accelerators') echo ':other' ;;
    'plan --budget') echo ':other' ;;
    'plan --wait-quiet') echo ':other' ;;
    'plan --batch-size') echo ':other' ;;
    'plan --transforms' | 'plan -t') echo ':file' ;;
    'plan --size') echo ':other' ;;
    'plan --fields') echo ':other' ;;
    'plan --per-box') echo ':other' ;;
    'plan --labels') echo ':file' ;;
    'plan --masks') echo ':other' ;;
    'plan --split') echo ':other' ;;
    'plan --members') echo ':other' ;;
    'plan --forms') echo ',jpeg pli-jpeg png webp pli-fast pli-small pli-dense raw' ;;
    'plan --goal') echo 'rate storage cost' ;;
    'plan --least-rate') echo ':other' ;;
    'plan --storage-limit') echo ':other' ;;
    'plan --cache') echo ':other' ;;
    'plan --page-cache') echo ':other' ;;
    'plan --epochs') echo ':other' ;;
    'plan --max-error') echo ':other' ;;
    'plan --machines') echo ':file' ;;
    'plan --machine') echo ':file' ;;
    'plan --schedule') echo ':other' ;;
    'plan --out') echo ':file' ;;
    'tune --train') echo ':other' ;;
    'tune --rate') echo ':other' ;;
    'tune --as') echo ':other' ;;
    'tune --accelerators') echo ':other' ;;
    'tune --budget') echo ':other' ;;
    'tune --wait-quiet') echo ':other' ;;
    'tune --loader') echo ':other' ;;
    'tune --batch-size') echo ':other' ;;
    'tune --transforms' | 'tune -t') echo ':file' ;;
    'tune --size') echo ':other' ;;
    'tune --fields') echo ':other' ;;
    'tune --per-box') echo ':other' ;;
    'tune --labels') echo ':file' ;;
    'tune --masks') echo ':other' ;;
    'tune --split') echo ':other' ;;
    'tune --members') echo ':other' ;;
    'tune --storage-limit') echo ':other' ;;
    'tune --cache') echo ':other' ;;
    'tune --page-cache') echo ':other' ;;
    'tune --epochs') echo ':other' ;;
    'tune --max-error') echo ':other' ;;
    'tune --out') echo ':folder' ;;
    'tune --plan') echo ':file' ;;
    'tune --report') echo ':file' ;;
    esac
}

_penstock_operand() # VERB NUMBER: what this operand is
{
    case "$1 $2" in
    ' 0' | 'help 0') echo 'pack append repack merge info ls cat unpack verify index view serve cache top bench doctor analyze whatif plan tune env help' ;;
    'help cache 0') echo 'fleet' ;;
    'pack 0') echo ':file' ;;
    'pack 1') echo ':file' ;;
    'append 0') echo ':file' ;;
    'append 1') echo ':file' ;;
    'repack 0') echo ':file' ;;
    'repack 1') echo ':file' ;;
    'merge 0') echo ':file' ;;
    'info 0') echo ':file' ;;
    'ls 0') echo ':file' ;;
    'cat 0') echo ':file' ;;
    'unpack 0') echo ':file' ;;
    'unpack 1') echo ':folder' ;;
    'verify 0') echo ':file' ;;
    'index 0') echo ':file' ;;
    'view 0') echo ':file' ;;
    'serve 0') echo 'status stop' ;;
    'cache 0') echo 'status save load clear fleet' ;;
    'cache 1') echo ':file' ;;
    'cache fleet 0') echo ':file' ;;
    'bench 0') echo ':file' ;;
    'analyze 0') echo ':file' ;;
    'whatif 0') echo ':file' ;;
    'plan 0') echo ':file' ;;
    'tune 0') echo ':file' ;;
    esac
}

_penstock()
{
    local word=${COMP_WORDS[COMP_CWORD]} verb='' option='' kind n=0 ended='' prefix='' i w
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        w=${COMP_WORDS[i]}
        if [[ $w == '=' && -n $option ]]; then
            continue # --option=value is three words
        elif [[ -n $option ]]; then
            option=''
        elif [[ -z $ended && $w == -- ]]; then
            ended=1
        elif [[ -z $ended && $w == -?* ]]; then
            [[ -n $(_penstock_value "$verb" "$w") ]] && option=$w
        elif [[ -z $verb ]]; then
            verb=$w
        elif [[ $verb == help && $n == 0 ]]; then
            verb="help $w"
        else
            case "$verb $w" in
            'cache fleet') verb="$verb $w" ;;
            *) ((n++)) ;;
            esac
        fi
    done
    [[ $word == '=' && -n $option ]] && word=''
    if [[ -n $option ]]; then
        kind=$(_penstock_value "$verb" "$option")
    elif [[ -z $ended && $word == -* ]]; then
        kind=$(_penstock_options "$verb")
    else
        kind=$(_penstock_operand "$verb" "$n")
    fi
    if [[ $kind == ,* ]]; then
        kind=${kind#,}
        [[ $word == *,* ]] && prefix="${word%,*},"
        word=${word##*,}
    fi
    case $kind in
    '' | :other) ;;
    :file) compopt -o default ;;
    :folder) compopt -o dirnames ;;
    *) mapfile -t COMPREPLY < <(compgen -P "$prefix" -W "$kind" -- "$word") ;;
    esac
} 2> /dev/null

complete -F _penstock penstock
