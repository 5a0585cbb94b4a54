#!/usr/bin/env bash
# Builds stand-ins for the images that the seeds name, without Docker and without a registry.
#
#   seed-images.sh check       says whether it can be done here
#   seed-images.sh framework   prints what they train with: tensorflow, or numpy where that cannot be had
#   seed-images.sh save        writes all of them to stdout, as one `docker save` would
#
# In each are Debian with sshd, Open MPI and Python, TensorFlow as e2e/environment.sh has it, the wheels of `make wheel`,
# and a script of examples/ where the seed looks for it. Without TensorFlow, or with RONDE_SEEDS_FRAMEWORK=numpy, the script
# is one for NumPy under the same name, and there is no image for parameter servers. All but the script are layers that
# the images share; the first two are kept in a cache outside the checkout. Needs root, debootstrap and a mirror of Debian,
# as image.sh does.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly ROOT=$HERE/..
readonly CACHE="${RONDE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ronde}/seed-images"
readonly PACKAGES=(bash ca-certificates openmpi-bin openssh-client openssh-server python3 python3-cloudpickle python3-numpy python3-pip)
# The Python of that Debian.
readonly PYTHON=python3.11
# shellcheck source=e2e/processes.sh
source "$HERE/processes.sh"
# shellcheck source=e2e/roots.sh
source "$HERE/roots.sh"

# base_layer: prints the folder that has Debian as `root` and as `layer.tar`.
base_layer() {
    local folder lock
    folder=$CACHE/base-$(sha256sum <<<"$SUITE ${PACKAGES[*]}" | cut -c 1-12)
    mkdir -p "$CACHE"
    # Two callers at once make it once.
    exec {lock}>"$folder.lock"
    flock "$lock"
    if [[ ! -d $folder ]]; then
        rm -rf "$folder.new"
        mkdir -p "$folder.new"
        bootstrap "$folder.new/root" "${PACKAGES[@]}"
        tar -C "$folder.new/root" -cf "$folder.new/layer.tar" .
        mv "$folder.new" "$folder"
    fi
    exec {lock}>&-
    printf '%s\n' "$folder"
}

# framework_layer: prints the file with TensorFlow, if there is one for the image's Python and it is wanted.
framework_layer() {
    local environment packages file
    [[ ${RONDE_SEEDS_FRAMEWORK-} != numpy ]] || return
    environment=$("$HERE/environment.sh" tensorflow) || return
    mkdir -p "$CACHE"
    packages=$environment/lib/$PYTHON/site-packages
    [[ -d $packages ]] || return
    file=$CACHE/tensorflow-$(find "$packages" -maxdepth 1 -name '*.dist-info' -printf '%f\n' | sort | sha256sum | cut -c 1-12).tar
    if [[ ! -f $file ]]; then
        tar -C "$packages" --exclude './pip*' --exclude ./mypy --exclude ./mypyc --owner 0 --group 0 \
            --transform "flags=rh;s,^\.,./usr/local/lib/$PYTHON/dist-packages," -cf "$file.new" .
        mv "$file.new" "$file"
    fi
    printf '%s\n' "$file"
}

# own_layer BASE FILE: our wheels, installed by the pip of the image. The mount goes with its namespace.
own_layer() {
    mkdir "$dir"/{upper,work,merged}
    # shellcheck disable=SC2016 # The inner shell is to put its own values in.
    env ROOT="$ROOT" unshare --mount bash -euo pipefail -c '
        source "$1/processes.sh"
        source "$1/roots.sh"
        mount -t overlay overlay -o "lowerdir=$2,upperdir=$3/upper,workdir=$3/work" "$3/merged"
        install_wheels "$3/merged"
    ' "$0" "$HERE" "$1" "$dir"
    tar -C "$dir/upper" -cf "$2" ./usr
}

# script SOURCE PATH: a file of examples/ at its place in the next image.
script() { install -D -m 644 "$ROOT/examples/$1" "$dir/script$2"; }

# image NAME CONFIG: one more image, with what `script` has put there.
image() {
    local file=${1//[^a-z0-9]/-}.tar
    tar -C "$dir/script" --owner 0 --group 0 -cf "$dir/archive/$file" .
    rm -r "$dir/script"
    add_image "$dir/archive" "$1" "$2" "${shared[@]}" "$file"
}

# config FOLDER: what every image says, and where its programs start.
config() {
    printf '{"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"], "Cmd": ["bash"], "WorkingDir": "%s"}' "$1"
}

# The seeds' images, with the scripts of TensorFlow or of NumPy.
images() {
    script "${scripts[fixed]}" /examples/tensorflow_mnist_lm.py
    # Volcano brings keys of users; those of hosts are in the image.
    mkdir -p "$dir/script/etc/ssh"
    ssh-keygen -q -A -f "$dir/script" >&2
    image volcanosh/horovod-tf-mnist:0.5 "$(config /examples)"

    script "${scripts[keras]}" /opt/spark/examples/src/main/python/tensorflow/keras_mnist_advanced_modified.py
    mkdir -p "$dir/script/opt/conda/envs/tf_env/bin"
    ln -s /usr/bin/python3 "$dir/script/opt/conda/envs/tf_env/bin/python"
    image uber/horovod:0.12.1-tf1.8.0-py3.5 "$(config /)"

    script "${scripts[elastic]}" /examples/elastic/tensorflow2_mnist_elastic.py
    # It trains long enough to be watched, as the original does.
    sed -i -E '/"--steps"/s/default=[0-9]+/default=1000000/; /"--pause"/s/default=[0-9.]+/default=0.02/' \
        "$dir/script/examples/elastic/tensorflow2_mnist_elastic.py"
    image registry.cn-hangzhou.aliyuncs.com/ai-samples/horovod:0.20.0-tf2.3.0-torch1.6.0-mxnet1.6.0.post0-py3.7-cuda10.1 "$(config /)"

    [[ ${scripts[servers]-} ]] || return 0
    script "${scripts[servers]}" /var/tf_dist_mnist/dist_mnist.py
    image volcanosh/dist-mnist-tf-example:0.0.1 "$(config /)"
}

save_images() {
    local dir base framework shared=(1-base.tar)
    local -A scripts=([fixed]=numpy_train.py [keras]=numpy_train.py [elastic]=numpy_elastic.py)
    check
    dir=$(mktemp -d)
    # shellcheck disable=SC2064 # The folder of now.
    trap "rm -rf '$dir'" EXIT
    mkdir "$dir/archive"
    base=$(base_layer)
    ln -s "$base/layer.tar" "$dir/archive/1-base.tar"
    framework=$(framework_layer || true)
    if [[ $framework ]]; then
        ln -s "$framework" "$dir/archive/2-tensorflow.tar"
        shared+=(2-tensorflow.tar)
        scripts=([fixed]=tensorflow_mnist_lm.py [keras]=keras_mnist_advanced_modified.py [elastic]=elastic/tensorflow2_mnist_elastic.py [servers]=volcano/dist_mnist.py)
    fi
    own_layer "$base/root" "$dir/archive/3-ronde.tar"
    shared+=(3-ronde.tar)
    images
    save "$dir/archive"
}

case ${1-} in
check) check && say "can be built here, from $(mirror)" ;;
framework) [[ $(framework_layer || true) ]] && printf 'tensorflow\n' || printf 'numpy\n' ;;
save) save_images ;;
*)
    sed -n '2,12s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
