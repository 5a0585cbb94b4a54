# Counts what there is before `ronde up` and after `ronde down`, in namespaces in which nothing else is.
# Run as `unshare --net --mount --pid --fork --mount-proc bash leftovers.sh HOW`; says what is left. HOW it ends: `running`;
# `killed`, ronde; `orphaned`, ronde and every supervisor; `bare`, the same on a machine without control groups. Or the
# data directory goes: `deleted` and `moved`, while ronde runs; `abandoned`, after it was killed, and `down` comes at once;
# `forgotten`, after it and every supervisor were killed; `forgotten-bare`, the same without control groups.
set -euo pipefail
ip link set lo up

count() {
    echo "processes: $(ls -d /proc/[0-9]* | while read -r process; do cat "$process/comm" 2>/dev/null || true; done |
        grep -v -x -E 'bash|ls|cat|grep|sort|tr|sleep-count' | sort | tr '\n' ' ')"
    echo "links: $(ip -br link | cut -d ' ' -f 1 | sort | tr '\n' ' ')"
    echo "routes: $(ip route show table all | grep -v -E 'local|broadcast|::' | tr '\n' ' ')"
    echo "namespaces: $(find /run/netns /var/run/netns -type f 2>/dev/null | grep -c ronde || true)"
    echo "tables: $(nft list tables | tr '\n' ' ')"
    echo "mounts:"
    cut -d ' ' -f 5 /proc/self/mountinfo | sort
}

groups() { # those of all pods of this instance
    for process in $(pgrep -f '^sleep 98765$'); do cut -d : -f 3 "/proc/$process/cgroup"; done |
        { grep -o '/ronde.*' || true; } | sort -u
}

if [[ $1 == *bare ]]; then
    mount -t tmpfs none /sys/fs/cgroup
fi
count >before
"$RONDE" up --detach --listen 127.0.0.1:0 --nodes 1 --quiet
kubectl create deployment web --image example.test/web:1 --replicas 3 -- sleep 98765 >/dev/null
kubectl run memory --image example.test/web:1 --overrides '{"spec":{
  "volumes":[{"name":"shm","emptyDir":{"medium":"Memory"}}],
  "containers":[{"name":"memory","image":"example.test/web:1","command":["sleep","98765"],
    "resources":{"limits":{"memory":"64Mi"}},"volumeMounts":[{"name":"shm","mountPath":"/dev/shm"}]}]}}' >/dev/null
kubectl run among --image example.test/web:1 --overrides '{"spec":{"hostPID":true,"containers":[{
  "name":"among","image":"example.test/web:1","command":["sh","-c","setsid sleep 98765 & sleep 98765"]}]}}' >/dev/null
kubectl create service clusterip web --tcp 80:80 >/dev/null
kubectl wait --for=condition=Ready pod/memory pod/among --timeout 120s >/dev/null
kubectl rollout status deployment/web --timeout 120s >/dev/null
groups >groups
[[ $(count) != "$(cat before)" ]] || echo 'nothing was counted'
case $1 in
running | deleted | moved) ;;
*) kill -KILL "$("$RONDE" status -o json | sed -n 's/.*"pid": \([0-9]*\).*/\1/p')" ;;
esac
case $1 in
orphaned | bare | forgotten*)
    for lock in "$RONDE_DATA_DIR"/node/pods/*/supervisor.lock; do kill -KILL "$(cat "$lock")"; done
    ;;
esac
case $1 in
deleted)
    rm -rf "$RONDE_DATA_DIR" || rm -rf "$RONDE_DATA_DIR" # what is being written may be in the way
    ;;
moved) mv "$RONDE_DATA_DIR" moved ;;
abandoned)
    rm -rf "$RONDE_DATA_DIR"
    "$RONDE" status --all | grep -q -E ' (orphaned|pods without daemon) .* '"$RONDE_DATA_DIR"'$' || "$RONDE" status --all
    "$RONDE" down 2>said || cat said
    grep -q "removed what was left of instance" said || cat said
    ;;
forgotten*)
    rm -rf "$RONDE_DATA_DIR"
    "$RONDE" status --all -o json | grep -q '"state": "orphaned"' || "$RONDE" status --all
    RONDE_DATA_DIR=$PWD/another "$RONDE" down 2>said || cat said
    grep -q 'remove it with `ronde down --instance ' said || cat said
    "$RONDE" down --all --quiet
    ;;
*) "$RONDE" down --quiet ;;
esac
# What was killed may still be seen for a moment.
for _ in {1..300}; do
    count >after
    cmp -s before after && break
    sleep 0.1
done
diff before after
while read -r group; do
    find /sys/fs/cgroup -path "*$group" -type d
done <groups
[[ ! -e $RONDE_DATA_DIR || $1 != @(deleted|moved|abandoned|forgotten*) ]] || find "$RONDE_DATA_DIR"
[[ $("$RONDE" status --all 2>&1) == 'no instances of yours on this machine' ]] || "$RONDE" status --all
if grep -q 'name: ronde' "$HOME/.kube/config" 2>/dev/null; then cat "$HOME/.kube/config"; fi
echo 'nothing is left'
