"""Questions about jsrun. Ranks are not started through it."""

import shutil

from horovod.runner._instead import instead


def is_jsrun_installed():
    return shutil.which("jsrun") is not None


js_run = instead("js_run", "gloo_run, or horovodrun with -H")
generate_jsrun_rankfile = instead("generate_jsrun_rankfile", "horovodrun with -H")
