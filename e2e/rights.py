#!/usr/bin/env python3
"""Compares what an account may do with what it did, by the audit log of the API server.

usage: e2e/rights.py ACCOUNT AUDIT_LOG [--all] ROLE...

ACCOUNT is a user as in `system:serviceaccount:NAMESPACE:NAME`; each ROLE is a file with a role that it has, as `kubectl get
-o json` prints it. Fails if the account was refused anything. With `--all`, which is for a run of all scenarios, also if
it has a right that it never used and that is not in RESERVES.
"""

import json
import sys
from pathlib import Path

# Rights that no scenario uses, and why they are there all the same: (verb, group, resource).
RESERVES = {
    # The API server asks for these on behalf of another request, which the log does not tell.
    ("create", "", "pods/exec"): "to give it to launchers",
    ("update", "", "pods/finalizers"): "for groups of pods that nobody controls",
    ("update", "batch.volcano.sh", "jobs/finalizers"): "for what jobs own",
    ("update", "flow.volcano.sh", "jobflows/finalizers"): "for the jobs of flows",
    ("update", "kai.alibabacloud.com", "trainingjobs/finalizers"): "for what training jobs own",
    # Only a cluster that serves the kind is asked for more than a list.
    ("watch", "scheduling.k8s.io", "podgroups"): "PodGroups of Kubernetes itself",
    ("patch", "scheduling.k8s.io", "podgroups/status"): "PodGroups of Kubernetes itself",
    # After a lost race an object is looked at once more.
    ("get", "", "pods"): "after a conflict",
    ("get", "bus.volcano.sh", "commands"): "after a conflict",
    ("get", "scheduling.volcano.sh", "podgroups"): "after a conflict",
    # Marks what an older operator has made.
    ("update", "", "secrets"): "objects of an older operator",
    ("update", "", "serviceaccounts"): "objects of an older operator",
    ("update", "", "services"): "objects of an older operator",
    ("update", "networking.k8s.io", "networkpolicies"): "objects of an older operator",
    ("update", "rbac.authorization.k8s.io", "rolebindings"): "objects of an older operator",
    ("update", "rbac.authorization.k8s.io", "roles"): "objects of an older operator",
    # No node of the scenarios has volumes of its own.
    ("patch", "", "persistentvolumes"): "local volumes",
    ("patch", "", "persistentvolumeclaims"): "volumes that wait for their first pod",
}
# Owners of pods that ask for a place: what they say of themselves counts for their pods.
OWNERS = {
    ("", "replicationcontrollers"),
    ("apps", "daemonsets"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("batch", "jobs"),
}


def is_reserve(right):
    verb, group, resource = right
    is_owner = (group, resource.removesuffix("/finalizers")) in OWNERS and verb in ("get", "update")
    return right in RESERVES or is_owner


def granted(roles):
    """Returns every right as (verb, group, resource)."""
    return {
        (verb, group, resource)
        for role in roles
        for rule in role["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def requests(account, file):
    """Returns what the account did, and what it was refused."""
    done, refused = set(), {}
    with open(file) as lines:
        for event in map(json.loads, lines):
            what = event.get("objectRef") or {}
            if event["user"]["username"] != account or not what.get("resource"):
                continue
            resource = "/".join(filter(None, [what["resource"], what.get("subresource")]))
            right = (event["verb"], what.get("apiGroup", ""), resource)
            code = event.get("responseStatus", {}).get("code", 0)
            done.add(right)
            if code == 403 and event.get("annotations", {}).get("authorization.k8s.io/decision") != "allow":
                refused[right] = event["requestURI"]
            elif code == 403 and "attempting to grant" in event.get("responseStatus", {}).get("message", ""):
                refused[right] = event["responseStatus"]["message"]
    return done, refused


def show(right):
    verb, group, resource = right
    return f"{verb} {resource}" + (f".{group}" if group else "")


def main():
    words = [word for word in sys.argv[1:] if word != "--all"]
    if len(words) < 3:
        sys.exit(__doc__)
    account, log, *roles = words
    rights = granted(json.loads(Path(role).read_text()) for role in roles)
    done, refused = requests(account, log)
    faults = [f"refused: {show(right)} ({where})" for right, where in sorted(refused.items())]
    if "--all" in sys.argv:
        faults += [f"never used: {show(right)}" for right in sorted(rights - done) if not is_reserve(right)]
    print(f"{account}: {len(rights)} rights, {len(rights & done)} of them used in {len(done)} kinds of requests")
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
