"""Asks the API with the token of its pod, over and over, and notes what is answered otherwise than it must be.

The first argument names the file for how often it was answered; the rest are `STATUS METHOD PATH` each.
"""

import json
import ssl
import sys
import time
import urllib.error
import urllib.request

PLACE = "/var/run/secrets/kubernetes.io/serviceaccount/"
ROOT = {
    "metadata": {"generateName": "root-"},
    "spec": {
        "containers": [{"name": "c", "image": "x", "command": ["true"], "securityContext": {"privileged": True}}],
        "volumes": [{"name": "machine", "hostPath": {"path": "/"}}],
    },
}


def ask(method, path):
    """Returns the status; None if nobody answers, or answers that it cannot: the daemon is killed now and then."""
    with open(PLACE + "token") as token:
        headers = {"Authorization": "Bearer " + token.read(), "Content-Type": "application/json"}
    body = json.dumps(ROOT).encode() if method == "POST" else None
    request = urllib.request.Request("https://kubernetes.default.svc" + path, body, headers, method=method)
    try:
        trust = ssl.create_default_context(cafile=PLACE + "ca.crt")
        with urllib.request.urlopen(request, context=trust, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code if error.code < 500 else None
    except Exception:
        return None


answered = 0
while True:
    for line in sys.argv[2:]:
        expected, method, path = line.split()
        status = ask(method, path)
        if status is None:
            continue
        answered += 1
        with open("/notes/" + sys.argv[1], "w") as note:
            note.write(str(answered))
        if status != int(expected):
            with open("/notes/wrong-answers", "a") as note:
                note.write(f"{sys.argv[1]}: {status} instead of {line}\n")
    time.sleep(0.1)
