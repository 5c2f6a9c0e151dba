#compdef penstock
# Completion of penstock's words in zsh. Made by scripts/write_cli_pages.py of the tables of options: change these.

_penstock() {
  local curcontext="$curcontext" state line
  local -a verbs
  typeset -A opt_args
  _arguments -C '(-h --help)'{-h,--help}'[all verbs]' '(-V --version)'{-V,--version}'[the version of this program and of the library]' '--completion[the script by which a shell completes words]:SHELL:(bash zsh fish)' '1:verb:->verb' '*::argument:->argument' && return
  case $state in
  verb)
    verbs=(
      'pack:make a data set of a folder of images, of tars or of tables'
      'append:add a folder of images to a data set'
      'repack:make a data set of a data set, its images in other forms'
      'merge:make one data set of the parts that several processes packed'
      'info:say what is in a data set, folder or image'
      'ls:list samples'
      'cat:write one item of a sample, as stored or as pixels'
      'unpack:write the files that were packed'
      'verify:read everything and report what is wrong'
      'index:make or check the index of tars and tables ahead of time'
      'view:draw samples as a sheet of pictures'
      'serve:run the host service, or ask the one that runs'
      'cache:the host cache\: show, save, load, clear; servers of a fleet'
      'top:watch the host service'
      'bench:load a data set and measure'
      'doctor:check this machine and say what to mend'
      'analyze:measure where a training run stalls, and what would help'
      'whatif:predict its rate on another machine or in another form'
      'plan:find the best forms, cache and machine for it'
      'tune:analyze, plan, write, and compare before with after'
      'env:say what this build and this machine can do'
      'help:the options of a verb'
    )
    _describe -t verbs verb verbs
    ;;
  argument)
    case $words[1] in
    help)
      verbs=(
      'pack:make a data set of a folder of images, of tars or of tables'
      'append:add a folder of images to a data set'
      'repack:make a data set of a data set, its images in other forms'
      'merge:make one data set of the parts that several processes packed'
      'info:say what is in a data set, folder or image'
      'ls:list samples'
      'cat:write one item of a sample, as stored or as pixels'
      'unpack:write the files that were packed'
      'verify:read everything and report what is wrong'
      'index:make or check the index of tars and tables ahead of time'
      'view:draw samples as a sheet of pictures'
      'serve:run the host service, or ask the one that runs'
      'cache:the host cache\: show, save, load, clear; servers of a fleet'
      'top:watch the host service'
      'bench:load a data set and measure'
      'doctor:check this machine and say what to mend'
      'analyze:measure where a training run stalls, and what would help'
      'whatif:predict its rate on another machine or in another form'
      'plan:find the best forms, cache and machine for it'
      'tune:analyze, plan, write, and compare before with after'
      'env:say what this build and this machine can do'
      )
      _describe -t verbs verb verbs
      ;;
    pack)
      _arguments -s -S \
      '(-f --form)'{-f,--form}'[how images are stored, comma-separated, the preferred first...]:FORMS:_values -s , value pli-jpeg original raw pli jpeg png webp' \
      '--mask-form[the same for masks]:FORMS:_values -s , value pli-jpeg original raw pli jpeg png webp' \
      '(-t --tier)'{-t,--tier}'[pli\: fast to decode, small, or dense]:fast|small|dense:(fast small dense)' \
      '(-e --effort)'{-e,--effort}'[pli\: 1 to 5]:N: ' \
      '--max-error[pli\: samples of images may differ by so much, 127 at most]:N: ' \
      '--of-lossy[pli\: of JPEG and lossy WebP too, which makes them several times larger]' \
      '--plan[which samples are stored in which forms, as `penstock plan` found]:FILE:_files' \
      '--resize[store images after Resize(SIDE)\: the shorter side becomes SIDE...]:SIDE: ' \
      '--made-for[for which picture of images with an EXIF orientation masks, boxes...]:upright|stored:(upright stored)' \
      '(-w --workers)'{-w,--workers}'[threads that read and decode]:N: ' \
      '(-r --resume)'{-r,--resume}'[go on where an interrupted run stopped]' \
      '--verify-samples[decode every image and sound, so that bad ones are found now]' \
      '--verify-pixels[the older name of --verify-samples]' \
      '--on-error[what a bad image does]:stop|skip:(stop skip)' \
      '(-s --shard-size)'{-s,--shard-size}'[start a new shard file beyond this]:SIZE: ' \
      '--commit-size[make what was written durable each time it grew by this]:SIZE: ' \
      '--part[do part I of N, from 1]:I/N: ' \
      '--prepare[only make the plan of shards in DST, by which parts work]' \
      '(-l --labels)'{-l,--labels}'[file of CSV, JSON lines, or lines of path and label that names the...]:FILE:_files' \
      '--masks[other columns of the label file that name mask files, comma-separated]:COLUMNS: ' \
      '--ignore-labels[the images alone\: sub-folders are no classes, and texts with boxes...]' \
      '--allow-unreadable[leave out files and folders of a plain folder that cannot be read or...]' \
      '--split[of files of others, and of some annotations\: the split to read, such...]:NAME: ' \
      '--members[of files of others\: what members are, by suffix...]:RULES: ' \
      '--coco[annotations of SRC'\''s images in COCO JSON\: boxes, keypoints, polygons]:FILE:_files' \
      '--voc[SRC has the layout of Pascal VOC (XML)]' \
      '--citypersons[SRC has the layout of Cityscapes with CityPersons (gtBboxCityPersons)]' \
      '--paint[mask (classes) and instances (objects), comma-separated, drawn from...]:FIELDS: ' \
      '--bad-annotations[what an annotation does that cannot be stored, such as a box without...]:stop|drop:(stop drop)' \
      '--yolo[SRC is data.yaml of YOLO, or its folder\: boxes, polygons, points]' \
      '--cvat[SRC is an unpacked export of CVAT for images 1.1, or its XML file]' \
      '--labelme[SRC is a folder of images with JSON files of Labelme]' \
      '--roboflow[SRC is an unpacked export of Roboflow\: train, valid and test as...]' \
      '--colours[SRC has images and masks in colours]:TABLE: ' \
      '--croissant[SRC is croissant.json of MLCommons, or its folder, where the files...]' \
      '--record-set[--croissant\: the record set to pack]:ID: ' \
      '--join[a table of CSV, JSON lines, Parquet or Arrow with a row for each...]:TABLE: ' \
      '--from[a Python function that returns an object with __len__ and...]:MODULE\:FUNCTION: ' \
      '--json[results and errors as JSON on stdout]' \
      '--quiet[no progress and no remarks on stderr]' \
      '(-h --help)'{-h,--help}'[this text]' \
      '1:SRC:_files' \
      '2:DST:_files'
      ;;
    append)
      _arguments -s -S \
      '(-f --form)'{-f,--form}'[how images are stored, comma-separated, the preferred first...]:FORMS:_values -s , value pli-jpeg original raw pli jpeg png webp' \
      '--mask-form[the same for masks]:FORMS:_values -s , value pli-jpeg original raw pli jpeg png webp' \
      '(-t --tier)'{-t,--tier}'[pli\: fast to decode, small, or dense]:fast|small|dense:(fast small dense)' \
      '(-e --effort)'{-e,--effort}'[pli\: 1 to 5]:N: ' \
      '--max-error[pli\: samples of images may differ by so much, 127 at most]:N: ' \
      '--of-lossy[pli\: of JPEG and lossy WebP too, which makes them several times larger]' \
      '--resize[store images after Resize(SIDE)\: the shorter side becomes SIDE...]:SIDE: ' \
      '--add-classes[classes of SRC that DST does not have become new classes of DST]' \
      '(-w --workers)'{-w,--workers}'[threads that read and decode]:N: ' \
      '(-r --resume)'{-r,--resume}'[go on where an interrupted run stopped]' \
      '--verify-samples[decode every image and sound, so that bad ones are found now]' \
      '--verify-pixels[the older name of --verify-samples]' \
      '--on-error[what a bad image does]:stop|skip:(stop skip)' \
      '(-s --shard-size)'{-s,--shard-size}'[start a new shard file beyond this]:SIZE: ' \
      '--commit-size[make what was written durable each time it grew by this]:SIZE: ' \
      '(-l --labels)'{-l,--labels}'[file of CSV, JSON lines, or lines of path and label that names the...]:FILE:_files' \
      '--masks[other columns of the label file that name mask files, comma-separated]:COLUMNS: ' \
      '--ignore-labels[the images alone\: sub-folders are no classes, and texts with boxes...]' \
      '--allow-unreadable[leave out files and folders of a plain folder that cannot be read or...]' \
      '--split[of files of others, and of some annotations\: the split to read, such...]:NAME: ' \
      '--members[of files of others\: what members are, by suffix...]:RULES: ' \
      '--json[results and errors as JSON on stdout]' \
      '--quiet[no progress and no remarks on stderr]' \
      '(-h --help)'{-h,--help}'[this text]' \
      '1:DST:_files' \
      '2:SRC:_files'
      ;;
    repack)
      _arguments -s -S \
      '(-f --form)'{-f,--form}'[how images are stored, comma-separated, the preferred first...]:FORMS:_values -s , value pli-jpeg original raw pli jpeg png webp' \
      '--mask-form[the same for masks]:FORMS:_values -s , value pli-jpeg original raw pli jpeg png webp' \
      '(-t --tier)'{-t,--tier}'[pli\: fast to decode, small, or dense]:fast|small|dense:(fast small dense)' \
      '(-e --effort)'{-e,--effort}'[pli\: 1 to 5]:N: ' \
      '--max-error[pli\: samples of images may differ by so much, 127 at most]:N: ' \
      '--of-lossy[pli\: of JPEG and lossy WebP too, which makes them several times larger]' \
      '--plan[which samples are stored in which forms, as `penstock plan` found]:FILE:_files' \
      '--resize[store images after Resize(SIDE)\: the shorter side becomes SIDE...]:SIDE: ' \
      '--made-for[for which picture of images with an EXIF orientation masks, boxes...]:upright|stored:(upright stored)' \
      '(-w --workers)'{-w,--workers}'[threads that read and decode]:N: ' \
      '(-r --resume)'{-r,--resume}'[go on where an interrupted run stopped]' \
      '--verify-samples[decode every image and sound, so that bad ones are found now]' \
      '--verify-pixels[the older name of --verify-samples]' \
      '--on-error[what a bad image does]:stop|skip:(stop skip)' \
      '(-s --shard-size)'{-s,--shard-size}'[start a new shard file beyond this]:SIZE: ' \
      '--commit-size[make what was written durable each time it grew by this]:SIZE: ' \
      '--part[do part I of N, from 1]:I/N: ' \
      '--prepare[only make the plan of shards in DST, by which parts work]' \
      '--split[of files of others, and of some annotations\: the split to read, such...]:NAME: ' \
      '--members[of files of others\: what members are, by suffix...]:RULES: ' \
      '--json[results and errors as JSON on stdout]' \
      '--quiet[no progress and no remarks on stderr]' \
      '(-h --help)'{-h,--help}'[this text]' \
      '1:SRC:_files' \
      '2:DST:_files'
      ;;
    merge)
      _arguments -s -S \
      '--json[results and errors as JSON on stdout]' \
      '--quiet[no progress and no remarks on stderr]' \
      '(-h --help)'{-h,--help}'[this text]' \
      '1:DST:_files'
      ;;
    info)
      _arguments -s -S \
      '(-a --all)'{-a,--all}'[read the header of every file of a folder, not of some 256]' \
      '--croissant[write Croissant metadata of a data set or folder to FILE, beside or...]:FILE:_files' \
      '--labels[file of CSV, JSON lines, or lines of path and label that names the...]:FILE:_files' \
      '--masks[other columns of the label file that name mask files, comma-separated]:COLUMNS: ' \
      '--ignore-labels[the images alone\: sub-folders are no classes, and texts with boxes...]' \
      '--allow-unreadable[leave out files and folders of a plain folder that cannot be read or...]' \
      '--split[of files of others, and of some annotations\: the split to read, such...]:NAME: ' \
      '--members[of files of others\: what members are, by suffix...]:RULES: ' \
      '--json[results and errors as JSON on stdout]' \
      '--quiet[no progress and no remarks on stderr]' \
      '(-h --help)'{-h,--help}'[this text]' \
      '1:PATH:_files'
      ;;
    ls)
      _arguments -s -S \
      '(-l --long)'{-l,--long}'[form, bytes, width x height x channels / bits too (in a folder each...]' \
      '(-r --range)'{-r,--range}'[only samples A to B-1, as the operand A\:B]:A\:B: ' \
      '--labels[file of CSV, JSON lines, or lines of path and label that names the...]:FILE:_files' \
      '--masks[other columns of the label file that name mask files, comma-separated]:COLUMNS: ' \
      '--ignore-labels[the images alone\: sub-folders are no classes, and texts with boxes...]' \
      '--allow-unreadable[leave out files and folders of a plain folder that cannot be read or...]' \
      '--split[of files of others, and of some annotations\: the split to read, such...]:NAME: ' \
      '--members[of files of others\: what members are, by suffix...]:RULES: ' \
      '--json[results and errors as JSON on stdout]' \
      '--quiet[no progress and no remarks on stderr]' \
      '(-h --help)'{-h,--help}'[this text]' \
      '1:PATH:_files' \
      '2:A\:B|N: '
      ;;
    cat)
      _arguments -s -S \
      '(-f --field)'{-f,--field}'[which field]:NAME: ' \
      '(-k --variant)'{-k,--variant}'[which stored form of it]:K: ' \
      '(-n --name)'{-n,--name}'[SAMPLE is a name even if it looks like a number]' \
      '(-o --output)'{-o,--output}'[where to write]:FILE:_files' \
      '--force[write over a file that is there, without a question]' \
      '(-a --as)'{-a,--as}'[decode, upright, and write so]:png|pli|pli-jpeg|pnm|raw:(png pli pli-jpeg pnm raw)' \
      '(-O --original)'{-O,--original}'[the file that was packed, byte for byte]' \
      '(-p --pixels)'{-p,--pixels}'[the same as --as pnm]' \
      '(-t --tier)'{-t,--tier}'[--as pli\: fast to decode, small, or dense]:fast|small|dense:(fast small dense)' \
      '(-e --effort)'{-e,--effort}'[--as pli\: 1 to 5]:N: ' \
      '--max-error[--as pli\: samples may differ by so much]:N: ' \
      '(-i --indices)'{-i,--indices}'[of an image with a palette its indices (masks\: always)]' \
      '--labels[file of CSV, JSON lines, or lines of path and label that names the...]:FILE:_files' \
      '--masks[other columns of the label file that name mask files, comma-separated]:COLUMNS: ' \
      '--ignore-labels[the images alone\: sub-folders are no classes, and texts with boxes...]' \
      '--allow-unreadable[leave out files and folders of a plain folder that cannot be read or...]' \
      '--split[of files of others, and of some annotations\: the split to read, such...]:NAME: ' \
      '--members[of files of others\: what members are, by suffix...]:RULES: ' \
      '--json[results and errors as JSON on stdout]' \
      '--quiet[no progress and no remarks on stderr]' \
      '(-h --help)'{-h,--help}'[this text]' \
      '1:PATH:_files' \
      '2:SAMPLE: '
      ;;
    unpack)
      _arguments -s -S \
      '(-w --workers)'{-w,--workers}'[threads that restore and write]:N: ' \
      '(-r --resume)'{-r,--resume}'[go on where an interrupted run stopped\: files that are there stay if...]' \
      '--on-error[what a bad sample does]:stop|skip:(stop skip)' \
      '--split[of files of others, and of some annotations\: the split to read, such...]:NAME: ' \
      '--members[of files of others\: what members are, by suffix...]:RULES: ' \
      '--json[results and errors as JSON on stdout]' \
      '--quiet[no progress and no remarks on stderr]' \
      '(-h --help)'{-h,--help}'[this text]' \
      '1:SET:_files' \
      '2:FOLDER:_files -/'
      ;;
    verify)
      _arguments -s -S \
      '(-d --decode)'{-d,--decode}'[decode images and sounds too and compare pixel checksums (folders...]' \
      '(-r --restore)'{-r,--restore}'[make the JPEG files of pli-jpeg again, too, and compare their checksums]' \
      '(-w --workers)'{-w,--workers}'[threads that read and check]:N: ' \
      '--labels[file of CSV, JSON lines, or lines of path and label that names the...]:FILE:_files' \
      '--masks[other columns of the label file that name mask files, comma-separated]:COLUMNS: ' \
      '--ignore-labels[the images alone\: sub-folders are no classes, and texts with boxes...]' \
      '--allow-unreadable[leave out files and folders of a plain folder that cannot be read or...]' \
      '--split[of files of others, and of some annotations\: the split to read, such...]:NAME: ' \
      '--members[of files of others\: what members are, by suffix...]:RULES: ' \
      '--part[do part I of N, from 1]:I/N: ' \
      '--summary[join the reports that parts wrote with --json\: the operands are...]' \
      '--json[results and errors as JSON on stdout]' \
      '--quiet[no progress and no remarks on stderr]' \
      '(-h --help)'{-h,--help}'[this text]' \
      '1:PATH:_files'
      ;;
    index)
      _arguments -s -S \
      '--check[walk over all files again, and compare what they hold with the...]' \
      '--sums[of files of others\: read all files once, so that the index has a...]' \
      '--labels[file of CSV, JSON lines, or lines of path and label that names the...]:FILE:_files' \
      '--masks[other columns of the label file that name mask files, comma-separated]:COLUMNS: ' \
      '--ignore-labels[the images alone\: sub-folders are no classes, and texts with boxes...]' \
      '--allow-unreadable[leave out files and folders of a plain folder that cannot be read or...]' \
      '--split[of files of others, and of some annotations\: the split to read, such...]:NAME: ' \
      '--members[of files of others\: what members are, by suffix...]:RULES: ' \
      '--part[do part I of N, from 1]:I/N: ' \
      '--merge[make the index of what the parts have found]' \
      '--json[results and errors as JSON on stdout]' \
      '--quiet[no progress and no remarks on stderr]' \
      '(-h --help)'{-h,--help}'[this text]' \
      '1:DATA:_files'
      ;;
    view)
      _arguments -s -S \
      '(-f --field)'{-f,--field}'[which image or mask]:NAME: ' \
      '--box-labels[field with a text or number for each box\: a JSON list, or an array...]:NAME: ' \
      '(-n --name)'{-n,--name}'[SAMPLE is a name even if it looks like a number]' \
      '(-b --batch)'{-b,--batch}'[RANGE is of positions in a shuffled epoch, not of sample numbers]' \
      '(-t --transforms)'{-t,--transforms}'[JSON file of operations, as penstock.transforms.to_json writes it]:FILE:_files' \
      '--epoch[order and random parameters of epoch N]:N: ' \
      '(-e --epochs)'{-e,--epochs}'[each sample or position in N epochs, side by side]:N: ' \
      '--seed[of order and operations]:N: ' \
      '(-o --output)'{-o,--output}'[the PNG]:FILE:_files' \
      '--force[write over files that are there, without a question]' \
      '(-s --size)'{-s,--size}'[side of a picture on the sheet, 32 to 2048]:PIXELS: ' \
      '(-c --columns)'{-c,--columns}'[pictures in a row]:N: ' \
      '--labels[file of CSV, JSON lines, or lines of path and label that names the...]:FILE:_files' \
      '--masks[other columns of the label file that name mask files, comma-separated]:COLUMNS: ' \
      '--ignore-labels[the images alone\: sub-folders are no classes, and texts with boxes...]' \
      '--allow-unreadable[leave out files and folders of a plain folder that cannot be read or...]' \
      '--split[of files of others, and of some annotations\: the split to read, such...]:NAME: ' \
      '--members[of files of others\: what members are, by suffix...]:RULES: ' \
      '--json[results and errors as JSON on stdout]' \
      '--quiet[no progress and no remarks on stderr]' \
      '(-h --help)'{-h,--help}'[this text]' \
      '1:PATH:_files' \
      '2:SAMPLE|RANGE: '
      ;;
    serve)
      _arguments -s -S \
      '(-m --memory)'{-m,--memory}'[most memory of the host cache]:SIZE: ' \
      '(-t --threads)'{-t,--threads}'[threads that read and re-code]:N: ' \
      '--numa[NUMA node for threads and memory]:NODE|auto|none:(auto none)' \
      '--linger[ends so long after the last client]:SECONDS: ' \
      '(-k --keep)'{-k,--keep}'[does not end for want of clients]' \
      '(-d --detach)'{-d,--detach}'[returns when the service serves, which goes on in the background, in...]' \
      '--socket[the service'\''s socket]:PATH:_files' \
      '--json[results and errors as JSON on stdout]' \
      '--quiet[no progress and no remarks on stderr]' \
      '(-h --help)'{-h,--help}'[this text]' \
      '1:COMMAND:(status stop)'
      ;;
    cache)
      if [[ $words[2] == fleet ]] && (( CURRENT > 2 )); then
      shift words
      (( CURRENT-- ))
      _arguments -s -S \
      '(-m --memory)'{-m,--memory}'[memory for items]:SIZE: ' \
      '--servers[servers that share the data set]:N: ' \
      '--max-item[what one value takes\: as the loaders'\'' max_item]:SIZE: ' \
      '(-l --listen)'{-l,--listen}'[address of this host to listen on]:ADDRESS: ' \
      '(-p --port)'{-p,--port}'[port to listen on]:N: ' \
      '(-s --socket)'{-s,--socket}'[listen on a Unix socket instead, for loaders of this host alone]:PATH:_files' \
      '(-t --threads)'{-t,--threads}'[threads of the server]:N: ' \
      '--auth-file[file with user\:password, which clients must give]:FILE:_files' \
      '(-u --user)'{-u,--user}'[user to become, if the server is started by root]:NAME: ' \
      '--flash[keep items in this file of a fast disk (extstore)]:FILE:_files' \
      '--flash-size[size of that file]:SIZE: ' \
      '--run[run the command, and again when memcached ends]' \
      '--json[results and errors as JSON on stdout]' \
      '--quiet[no progress and no remarks on stderr]' \
      '(-h --help)'{-h,--help}'[this text]' \
      '1:DATA:_files'
      return
      fi
      _arguments -s -S \
      '--force[save\: write over a file that is there, without a question]' \
      '--socket[the service'\''s socket]:PATH:_files' \
      '--json[results and errors as JSON on stdout]' \
      '--quiet[no progress and no remarks on stderr]' \
      '(-h --help)'{-h,--help}'[this text]' \
      '1:COMMAND:(status save load clear fleet)' \
      '2:FILE:_files'
      ;;
    top)
      _arguments -s -S \
      '(-1 --once)'{-1,--once}'[prints one picture and ends]' \
      '(-n --interval)'{-n,--interval}'[time between pictures]:SECONDS: ' \
      '--socket[the service'\''s socket]:PATH:_files' \
      '--json[results and errors as JSON on stdout]' \
      '--quiet[no progress and no remarks on stderr]' \
      '(-h --help)'{-h,--help}'[this text]'
      ;;
    bench)
      _arguments -s -S \
      '(-b --batch-size)'{-b,--batch-size}'[samples per batch]:N: ' \
      '(-w --workers)'{-w,--workers}'[decoding threads]:N: ' \
      '(-e --epochs)'{-e,--epochs}'[epochs measured, after one that is not]:N: ' \
      '--op[rrc224\: RandomResizedCrop(224), crop768\: RandomCrop(768), each with...]:rrc224|crop768|none:(rrc224 crop768 none)' \
      '--device[where batches go]:cpu|cuda|cuda\:N:(cpu cuda)' \
      '--seed[of order and augmentation]:N: ' \
      '--host-memory[limit of the loader]:SIZE: ' \
      '--on-error[what a bad image does]:stop|skip:(stop skip)' \
      '--labels[file of CSV, JSON lines, or lines of path and label that names the...]:FILE:_files' \
      '--masks[other columns of the label file that name mask files, comma-separated]:COLUMNS: ' \
      '--ignore-labels[the images alone\: sub-folders are no classes, and texts with boxes...]' \
      '--allow-unreadable[leave out files and folders of a plain folder that cannot be read or...]' \
      '--split[of files of others, and of some annotations\: the split to read, such...]:NAME: ' \
      '--members[of files of others\: what members are, by suffix...]:RULES: ' \
      '--json[results and errors as JSON on stdout]' \
      '--quiet[no progress and no remarks on stderr]' \
      '(-h --help)'{-h,--help}'[this text]' \
      '1:PATH:_files'
      ;;
    doctor)
      _arguments -s -S \
      '--json[results and errors as JSON on stdout]' \
      '--quiet[no progress and no remarks on stderr]' \
      '(-h --help)'{-h,--help}'[this text]'
      ;;
    analyze)
      _arguments -s -S \
      '--train[step(batch), which returns when the step is done]:MODULE\:FUNCTION: ' \
      '--command[instead of DATA\: a training script with torch'\''s DataLoader, run once...]:TEXT: ' \
      '--rate[an accelerator that takes N samples/s, emulated by pauses]:N: ' \
      '--as[an emulated accelerator of MLPerf Storage, such as mlperf\:resnet50\:h100]:NAME: ' \
      '--accelerators[how many share this machine]:N: ' \
      '--budget[about how long it may take]:TIME: ' \
      '--wait-quiet[wait at most so long, such as 60s, until other programs leave the...]:TIME: ' \
      '--batch-size[samples per batch of DATA]:N: ' \
      '(-t --transforms)'{-t,--transforms}'[JSON file of operations, as penstock.transforms.to_json writes it]:FILE:_files' \
      '--size[without --transforms\: side of the crop, PIXELS or HEIGHTxWIDTH]:SIZE: ' \
      '--fields[fields to deliver]:A,B: ' \
      '--per-box[fields with a row for each box, or A=BOXES where there are several boxes]:A,B: ' \
      '--labels[file of CSV, JSON lines, or lines of path and label that names the...]:FILE:_files' \
      '--masks[other columns of the label file that name mask files, comma-separated]:COLUMNS: ' \
      '--ignore-labels[the images alone\: sub-folders are no classes, and texts with boxes...]' \
      '--allow-unreadable[leave out files and folders of a plain folder that cannot be read or...]' \
      '--split[of files of others, and of some annotations\: the split to read, such...]:NAME: ' \
      '--members[of files of others\: what members are, by suffix...]:RULES: ' \
      '--forms[forms to probe\: jpeg, pli-jpeg, png, webp, pli-fast, pli-small...]:A,B:_values -s , value jpeg pli-jpeg png webp pli-fast pli-small pli-dense raw' \
      '--machine[predict for the machine of this file]:FILE:_files' \
      '--skip[--command\: the script'\''s loops over DataLoaders before the training'\''s]:N: ' \
      '--finish[--command\: let the script go on after the measurement, which else...]' \
      '--out[write the report (JSON), for penstock whatif]:FILE:_files' \
      '--html[write the report as one HTML page]:FILE:_files' \
      '--force[write over files that are there, without a question]' \
      '--json[results and errors as JSON on stdout]' \
      '--quiet[no progress and no remarks on stderr]' \
      '(-h --help)'{-h,--help}'[this text]' \
      '1:DATA:_files'
      ;;
    whatif)
      _arguments -s -S \
      '--cores[CPU cores of the machine, fractions too]:V: ' \
      '--workers[workers of a rank]:V: ' \
      '--prefetch[batches prepared ahead]:V: ' \
      '--batch-size[samples per batch]:V: ' \
      '--ranks[accelerators of one job on this machine]:V: ' \
      '--jobs[jobs on this machine]:V: ' \
      '--hosts[machines over which a cache is partitioned]:V: ' \
      '--cache[Penstock'\''s cache on one host\: 64GiB]:V: ' \
      '--page-cache[memory left for the kernel'\''s page cache]:V: ' \
      '--policy[of the cache\: minio (nothing is evicted), random, lru...]:V:_values -s , value minio random lru lru-sequential' \
      '--storage[rate of storage\: 2GB/s]:V: ' \
      '--reads[reads/s of storage]:V: ' \
      '--network[rate between hosts\: 1.2GB/s]:V: ' \
      '--link[rate from the host to an accelerator]:V: ' \
      '--copying[rate of the thread that copies what is read out of the page cache]:V: ' \
      '--epoch-batches[batches of a rank in one epoch]:V: ' \
      '--epoch-pause[seconds between two epochs, for validation]:V: ' \
      '--gpu-speed[speed of the accelerator\: 2x]:V: ' \
      '--gpu-free[part of its time that preparation may have, 0 (none) to 1]:V: ' \
      '--gpu-part[part of the rows that it decodes, 0 to 1]:V: ' \
      '--form[form of the images, one of the report'\''s\: pli-jpeg, pli-small, ]:V:_values -s , value jpeg pli-jpeg png webp pli-fast pli-small pli-dense raw' \
      '--decode[where images are decoded\: cpu or gpu]:V:_values -s , value cpu gpu' \
      '--shared-cache[ranks and jobs share one cache]' \
      '--shared-preparation[a sample is prepared once for all jobs]' \
      '--machine[capacities of another machine]:FILE:_files' \
      '--utilisation[what counts as fed]:U: ' \
      '--html[write the report as one HTML page]:FILE:_files' \
      '--force[write over files that are there, without a question]' \
      '--json[results and errors as JSON on stdout]' \
      '--quiet[no progress and no remarks on stderr]' \
      '(-h --help)'{-h,--help}'[this text]' \
      '1:REPORT:_files'
      ;;
    plan)
      _arguments -s -S \
      '--train[step(batch), which returns when the step is done]:MODULE\:FUNCTION: ' \
      '--rate[an accelerator that takes N samples/s, emulated by pauses]:N: ' \
      '--as[an emulated accelerator of MLPerf Storage, such as mlperf\:resnet50\:h100]:NAME: ' \
      '--accelerators[how many share this machine]:N: ' \
      '--budget[about how long it may take]:TIME: ' \
      '--wait-quiet[wait at most so long, such as 60s, until other programs leave the...]:TIME: ' \
      '--batch-size[samples per batch of DATA]:N: ' \
      '(-t --transforms)'{-t,--transforms}'[JSON file of operations, as penstock.transforms.to_json writes it]:FILE:_files' \
      '--size[without --transforms\: side of the crop, PIXELS or HEIGHTxWIDTH]:SIZE: ' \
      '--fields[fields to deliver]:A,B: ' \
      '--per-box[fields with a row for each box, or A=BOXES where there are several boxes]:A,B: ' \
      '--labels[file of CSV, JSON lines, or lines of path and label that names the...]:FILE:_files' \
      '--masks[other columns of the label file that name mask files, comma-separated]:COLUMNS: ' \
      '--ignore-labels[the images alone\: sub-folders are no classes, and texts with boxes...]' \
      '--allow-unreadable[leave out files and folders of a plain folder that cannot be read or...]' \
      '--split[of files of others, and of some annotations\: the split to read, such...]:NAME: ' \
      '--members[of files of others\: what members are, by suffix...]:RULES: ' \
      '--forms[forms that may be stored\: jpeg, pli-jpeg, png, webp, pli-fast...]:A,B:_values -s , value jpeg pli-jpeg png webp pli-fast pli-small pli-dense raw' \
      '--goal[most samples/s]:rate|storage|cost:(rate storage cost)' \
      '--least-rate[samples/s that a plan must reach]:N: ' \
      '--storage-limit[most bytes on storage\: 100GiB, or 150% of today'\''s]:SIZE: ' \
      '--cache[memory for the cache\: 8GiB, 50%, 0]:SIZE: ' \
      '--page-cache[memory for the kernel'\''s page cache\: 8GiB]:SIZE: ' \
      '--epochs[epochs of the training\: says whether re-coding images for the cache...]:N: ' \
      '--max-error[allow PLI whose samples differ by up to N of 255]:N: ' \
      '--copies[store a sample in each form of the mix, so that every batch has the...]' \
      '--training-size[images may be stored after the Resize(side) that the transforms...]' \
      '--machines[compare these machines]:FILE:_files' \
      '--machine[plan a REPORT for the machine of this file]:FILE:_files' \
      '--no-layout[do not measure files against packed samples]' \
      '--schedule[sizes of pictures and batches from epochs on, which Loader(plan=)...]:STAGES: ' \
      '--out[write the plan (JSON), for pack, repack and Loader(plan=)]:FILE:_files' \
      '--force[write over files that are there, without a question]' \
      '--json[results and errors as JSON on stdout]' \
      '--quiet[no progress and no remarks on stderr]' \
      '(-h --help)'{-h,--help}'[this text]' \
      '1:DATA|REPORT:_files'
      ;;
    tune)
      _arguments -s -S \
      '--train[step(batch), which returns when the step is done]:MODULE\:FUNCTION: ' \
      '--rate[an accelerator that takes N samples/s, emulated by pauses]:N: ' \
      '--as[an emulated accelerator of MLPerf Storage, such as mlperf\:resnet50\:h100]:NAME: ' \
      '--accelerators[how many share this machine]:N: ' \
      '--budget[about how long it may measure]:TIME: ' \
      '--wait-quiet[wait at most so long, such as 60s, until other programs leave the...]:TIME: ' \
      '--loader[make(path, plan), which returns the training'\''s Loader]:MODULE\:FUNCTION: ' \
      '--batch-size[samples per batch of DATA]:N: ' \
      '(-t --transforms)'{-t,--transforms}'[JSON file of operations, as penstock.transforms.to_json writes it]:FILE:_files' \
      '--size[without --transforms\: side of the crop, PIXELS or HEIGHTxWIDTH]:SIZE: ' \
      '--fields[fields to deliver]:A,B: ' \
      '--per-box[fields with a row for each box, or A=BOXES where there are several boxes]:A,B: ' \
      '--labels[file of CSV, JSON lines, or lines of path and label that names the...]:FILE:_files' \
      '--masks[other columns of the label file that name mask files, comma-separated]:COLUMNS: ' \
      '--ignore-labels[the images alone\: sub-folders are no classes, and texts with boxes...]' \
      '--allow-unreadable[leave out files and folders of a plain folder that cannot be read or...]' \
      '--split[of files of others, and of some annotations\: the split to read, such...]:NAME: ' \
      '--members[of files of others\: what members are, by suffix...]:RULES: ' \
      '--storage-limit[most bytes on storage\: 100GiB, or 150% of today'\''s]:SIZE: ' \
      '--cache[memory for the cache\: 8GiB, 50%, 0]:SIZE: ' \
      '--page-cache[memory for the kernel'\''s page cache\: 8GiB]:SIZE: ' \
      '--epochs[epochs of the training\: says whether re-coding images for the cache...]:N: ' \
      '--max-error[allow PLI whose samples differ by up to N of 255]:N: ' \
      '--copies[store a sample in each form of the mix, so that every batch has the...]' \
      '--training-size[images may be stored after the Resize(side) that the transforms...]' \
      '(-y --yes)'{-y,--yes}'[write without a question, also over files that are there]' \
      '--out[where a folder is packed to, or new data sets of a mixture]:DIR:_files -/' \
      '--plan[write the plan (JSON), also where no data are written]:FILE:_files' \
      '--report[write both analyses and the plan (JSON)]:FILE:_files' \
      '--json[results and errors as JSON on stdout]' \
      '--quiet[no progress and no remarks on stderr]' \
      '(-h --help)'{-h,--help}'[this text]' \
      '1:DATA:_files'
      ;;
    env)
      _arguments -s -S \
      '--json[results and errors as JSON on stdout]' \
      '--quiet[no progress and no remarks on stderr]' \
      '(-h --help)'{-h,--help}'[this text]'
      ;;
    esac
    ;;
  esac
}

if [[ $funcstack[1] == _penstock ]]; then
  _penstock "$@"
else
  compdef _penstock penstock
fi
