"""Trains a small classifier of digits with TensorFlow's parameter server and between-graph workers.

Every process finds its place in TF_CONFIG. The digits are drawn here, so nothing is downloaded. The parameter server
ends when every worker has said that it is done.
"""

import json
import os
import re
import sys
import time

import numpy as np
import tensorflow.compat.v1 as tf

STEPS = int(os.environ.get("STEPS", "300"))
BATCH = 64
SIDE = 8


def digits(count, seed):
    """Returns noisy pictures of ten fixed patterns, and which one each shows."""
    patterns = np.random.RandomState(0).rand(10, SIDE * SIDE).astype("float32")
    numbers = np.random.RandomState(seed)
    labels = numbers.randint(0, 10, count)
    return patterns[labels] + 0.3 * numbers.randn(count, SIDE * SIDE).astype("float32"), labels


def read_config(text):
    """Reads TF_CONFIG; addresses may be without the quotes of JSON, as shell scripts easily write them."""
    return json.loads(re.sub(r"(?<=[\[,])\s*([\w.-]+:\d+)\s*(?=[\],])", r'"\1"', text))


def done_queues(cluster, workers):
    """One queue on each parameter server, into which every worker puts a word at its end."""
    for index in range(cluster.num_tasks("ps")):
        with tf.device(f"/job:ps/task:{index}"):
            yield tf.FIFOQueue(workers, tf.int32, shared_name=f"done{index}")


def serve(server, cluster, index):
    workers = cluster.num_tasks("worker")
    queue = list(done_queues(cluster, workers))[index]
    with tf.Session(server.target) as session:
        for _ in range(workers):
            session.run(queue.dequeue())
    print("every worker is done", flush=True)


def reach(session, *what):
    """Runs it as soon as all are there: who asked for another process before that listened is refused for a while."""
    while True:
        try:
            return session.run(*what)
        except tf.errors.UnavailableError:
            time.sleep(0.2)


def train(server, cluster, index):
    workers = cluster.num_tasks("worker")
    with tf.device(tf.train.replica_device_setter(worker_device=f"/job:worker/task:{index}", cluster=cluster)):
        pictures = tf.placeholder(tf.float32, [None, SIDE * SIDE])
        labels = tf.placeholder(tf.int64, [None])
        weights = tf.get_variable("weights", [SIDE * SIDE, 10], initializer=tf.zeros_initializer())
        offsets = tf.get_variable("offsets", [10], initializer=tf.zeros_initializer())
        scores = tf.matmul(pictures, weights) + offsets
        loss = tf.losses.sparse_softmax_cross_entropy(labels, scores)
        step = tf.train.get_or_create_global_step()
        improve = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
        accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(scores, 1), labels), tf.float32))
    say_done = [queue.enqueue(1) for queue in done_queues(cluster, workers)]

    missing, initialise = tf.report_uninitialized_variables(), tf.global_variables_initializer()
    # Without the filter a session waits for the other workers too, also for those that have ended.
    filters = ["/job:ps", f"/job:worker/task:{index}"]
    with tf.Session(server.target, config=tf.ConfigProto(device_filters=filters)) as session:
        if index == 0:
            reach(session, initialise)
        while reach(session, missing).size:
            time.sleep(0.2)
        done = 0
        for number in range(STEPS):
            xs, ys = digits(BATCH, seed=number * workers + index)
            done, _ = reach(session, [step, improve], {pictures: xs, labels: ys})
            if number % 100 == 0:
                print(f"worker {index}: step {done}", flush=True)
        xs, ys = digits(1000, seed=2**31)
        reached = reach(session, accuracy, {pictures: xs, labels: ys})
        print(f"worker {index}: accuracy {reached:.2f} after {done} steps of all workers", flush=True)
        reach(session, say_done)
    if reached < 0.9:
        sys.exit("the accuracy is too low")


def main():
    tf.disable_eager_execution()
    config = read_config(os.environ["TF_CONFIG"])
    cluster = tf.train.ClusterSpec(config["cluster"])
    role, index = config["task"]["type"], int(config["task"]["index"])
    server = tf.train.Server(cluster, job_name=role, task_index=index)
    print(f"{role} {index} of {config['cluster']}", flush=True)
    if role == "ps":
        serve(server, cluster, index)
    else:
        train(server, cluster, index)


if __name__ == "__main__":
    main()
