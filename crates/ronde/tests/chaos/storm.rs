//! Preemption storms: jobs that need most of the node, of low and of high priority, so that one is always in the way of
//! the other. However often it was preempted, and whatever was killed meanwhile, each of them completes in the end.

use k8s_openapi::api::{core::v1::Node, scheduling::v1::PriorityClass};
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    deeds::{Deeds, OBJECTS_MAX, pod, work},
    dice::Dice,
    instance::Instance,
};

const CLASS: &str = "storm";

/// Makes the class of those who preempt.
pub async fn begin(instance: &Instance) {
    let class = json!({"metadata": {"name": CLASS}, "value": 1000});
    let class: PriorityClass = serde_json::from_value(class).unwrap();
    Api::all(instance.client.clone()).create(&PostParams::default(), &class).await.unwrap();
}

/// Makes a job, and one that preempts it as soon as it runs.
pub async fn blow(deeds: &mut Deeds, instance: &Instance, dice: &mut Dice) -> String {
    if deeds.gangs.len() + 2 > OBJECTS_MAX {
        return deeds.delete_gang(instance, dice).await;
    }
    let cpu = most_of_a_node(instance).await;
    let mut made = Vec::new();
    for class in ["", CLASS] {
        let name = deeds.name(if class.is_empty() { "low" } else { "high" });
        let mut spec = pod(instance, "Never", &work(dice));
        spec["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}});
        deeds.put_gang(instance, &name, 1, spec, json!({"priorityClassName": class})).await;
        made.push(name);
    }
    format!("make {} and {}, which need {cpu} CPUs each", made[0], made[1])
}

/// Returns so many processors that there is room for one of the jobs only.
async fn most_of_a_node(instance: &Instance) -> Value {
    let nodes = Api::<Node>::all(instance.client.clone()).list(&ListParams::default()).await.unwrap();
    let amounts = nodes.items.into_iter().find_map(|node| node.status?.allocatable).unwrap();
    let text = &amounts["cpu"].0;
    let milli = text.strip_suffix('m').map_or_else(|| text.parse::<u64>().unwrap() * 1000, |it| it.parse().unwrap());
    format!("{}m", milli * 6 / 10).into()
}
