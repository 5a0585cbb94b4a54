# Where the kernel makes no overlay: a pod sees the machine's files, those of mounts below other mounts too, and changes
# none. Run as `unshare --net --mount --pid --fork --mount-proc bash read_only.sh`; says what was changed.
set -euo pipefail
ip link set lo up

# An overlay cannot be on top of another one.
mkdir -p lower upper work data
mount -t overlay overlay -o "lowerdir=$PWD/lower,upperdir=$PWD/upper,workdir=$PWD/work" data
mount -t tmpfs outer /mnt
mkdir /mnt/inner
mount -t tmpfs inner /mnt/inner
echo seen >/mnt/inner/file

"$RONDE" up --detach --listen 127.0.0.1:0 --nodes 1 >said 2>&1
grep -q 'read-only' said || cat said
kubectl run writer --image example.test/writer:1 --restart Never -- sh -c '
    cat /mnt/inner/file
    for place in /usr /mnt /mnt/inner; do touch $place/of-a-pod 2>/dev/null && echo "wrote to $place"; done
    touch /tmp/of-a-pod' >/dev/null
kubectl wait --for=jsonpath='{.status.phase}'=Succeeded pod/writer --timeout 120s >/dev/null || kubectl describe pod writer
kubectl logs writer
# An image is copied.
if [[ ${1-} == image ]]; then
    # On an overlay there are no marks of deleted files, which layers have.
    mkdir -p data/images
    mount -t tmpfs images data/images
    busybox-image box.tar
    "$RONDE" image load box.tar >/dev/null
    kubectl run box --image test/box:1 --restart Never -- 'exec 2>&1; cat /etc/removed; ls /usr; echo of-a-pod; test -e /etc/added' >/dev/null
    kubectl wait --for=jsonpath='{.status.phase}'=Succeeded pod/box --timeout 120s >/dev/null || kubectl describe pod box
    kubectl logs box
    kubectl get events --field-selector involvedObject.name=box,reason=ImageCopied -o jsonpath='{.items[*].message}'
    echo
fi
"$RONDE" down --quiet
find /usr/of-a-pod /mnt /tmp/of-a-pod -name of-a-pod 2>/dev/null || true
