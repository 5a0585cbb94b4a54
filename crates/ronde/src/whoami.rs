//! `ronde whoami`: who the cluster takes the user for.

use http::{Request, header::CONTENT_TYPE};
use kube::Client;
use serde_json::{Value, json};

use crate::{
    Context,
    args::WhoamiArgs,
    client::{self, ClientError},
    failure::{Answer, Outcome},
};

const REVIEW: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
/// The group whose members may do anything.
const MASTERS: &str = "system:masters";

/// Runs the verb.
pub fn run(args: &WhoamiArgs, context: &Context) -> Outcome {
    client::runtime()?.block_on(async {
        let client = client::connect_as(&args.cluster).await?;
        context.printer.data(describe(&ask(&client).await?));
        Ok(Answer::Done)
    })
}

async fn ask(client: &Client) -> Result<Value, ClientError> {
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request = Request::post(REVIEW).header(CONTENT_TYPE, "application/json");
    client::send(client, request, body.to_string().into_bytes()).await?.json()
}

/// Writes one line of JSON, as arena does.
fn describe(review: &Value) -> Value {
    let user = &review["status"]["userInfo"];
    let is_admin = user["groups"].as_array().is_some_and(|groups| groups.iter().any(|group| group == MASTERS));
    let id = user["uid"].as_str().filter(|id| !id.is_empty()).or(user["username"].as_str());
    json!({"Name": user["username"], "Id": id, "IsAdminUser": is_admin})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_name_and_an_id() {
        let review = |user: Value| describe(&json!({"status": {"userInfo": user}})).to_string();
        let admin = json!({"username": "admin", "groups": ["system:masters"]});
        assert_eq!(review(admin), r#"{"Id":"admin","IsAdminUser":true,"Name":"admin"}"#);
        let ann = json!({"username": "ann", "uid": "u1", "groups": ["ml"]});
        assert_eq!(review(ann), r#"{"Id":"u1","IsAdminUser":false,"Name":"ann"}"#);
    }
}
