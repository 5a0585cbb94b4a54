//! Questions about a small cluster, and the whole way from bytes to bytes.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use hickory_proto::{
    op::{Edns, Message, MessageType, OpCode, Query, ResponseCode},
    rr::{Name, RData, Record, RecordType, rdata::A},
};
use serde_json::json;
use tokio::{net::UdpSocket, sync::watch};

use super::{
    NameServer, Upstream, Zone,
    answer::{Reply, encode},
    upstream::Transport,
};
use crate::net::{subnets::choose, view::ClusterView};

fn view() -> ClusterView {
    let service = |object| Arc::new(serde_json::from_value(object).unwrap());
    let slice = |object| Arc::new(serde_json::from_value(object).unwrap());
    ClusterView {
        services: vec![
            service(json!({"metadata": {"name": "web", "namespace": "team"}, "spec": {"clusterIP": "10.96.0.20",
                "ports": [{"name": "http", "port": 80, "protocol": "TCP"}, {"port": 81}]}})),
            service(json!({"metadata": {"name": "db", "namespace": "team"}, "spec": {"clusterIP": "None",
                "ports": [{"name": "sql", "port": 5432}]}})),
            service(json!({"metadata": {"name": "idle", "namespace": "team"}, "spec": {"clusterIP": "None"}})),
            service(json!({"metadata": {"name": "early", "namespace": "team"},
                "spec": {"clusterIP": "None", "publishNotReadyAddresses": true}})),
            service(json!({"metadata": {"name": "outside", "namespace": "team"},
                "spec": {"type": "ExternalName", "externalName": "Example.ORG."}})),
            service(json!({"metadata": {"name": "other", "namespace": "team"},
                "spec": {"type": "ExternalName", "externalName": "web.team.svc.cluster.local"}})),
            service(json!({"metadata": {"name": "circle", "namespace": "team"},
                "spec": {"type": "ExternalName", "externalName": "circle.team.svc.cluster.local"}})),
        ],
        slices: vec![
            slice(
                json!({"metadata": {"name": "db-1", "namespace": "team", "labels": {"kubernetes.io/service-name": "db"}},
                "addressType": "IPv4", "ports": [{"name": "sql", "port": 15432, "protocol": "TCP"}], "endpoints": [
                    {"addresses": ["10.244.0.11"], "hostname": "db-0", "conditions": {"ready": true}},
                    {"addresses": ["10.244.0.12"], "conditions": {}},
                    {"addresses": ["10.244.0.13"], "hostname": "db-2", "conditions": {"ready": false}}]}),
            ),
            slice(
                json!({"metadata": {"name": "web-1", "namespace": "team", "labels": {"kubernetes.io/service-name": "web"}},
                "addressType": "IPv4", "ports": [{"name": "http", "port": 8080}], "endpoints": [
                    {"addresses": ["10.244.0.21"], "hostname": "web-0"}, {"addresses": ["10.244.0.22"]}]}),
            ),
            slice(
                json!({"metadata": {"name": "early-1", "namespace": "team", "labels": {"kubernetes.io/service-name": "early"}},
                "addressType": "IPv4", "endpoints": [{"addresses": ["10.244.0.31"], "conditions": {"ready": false}}]}),
            ),
        ],
        pods: vec![Arc::new(
            serde_json::from_value(json!({"metadata": {"name": "lone", "namespace": "team"},
            "status": {"podIP": "10.244.0.41"}}))
            .unwrap(),
        )],
    }
}

fn zone() -> Zone {
    Zone::build(&view(), "cluster.local", &choose(&[]).unwrap())
}

fn question(name: &str, kind: RecordType) -> Message {
    let mut message = Message::new(0, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.queries.push(Query::query(Name::from_ascii(name).unwrap(), kind));
    message
}

fn shown(records: &[Record]) -> String {
    let shown = records.iter().map(|record| format!("{} {}", record.record_type(), record.data));
    shown.collect::<Vec<_>>().join(", ")
}

fn check(what: &str, name: &str, kind: RecordType, expected: &str) {
    let found = match zone().reply(&question(name, kind)) {
        Reply::Forward => "elsewhere".to_owned(),
        Reply::Follow { answer, target } => format!("{} then {target}", shown(&answer.answers)),
        Reply::Answer(answer) => {
            let is_negative = answer.answers.is_empty();
            let has_authority = answer.authorities.iter().any(|record| record.record_type() == RecordType::SOA);
            assert_eq!(is_negative, has_authority, "{what}: who says no says for how long");
            assert!(answer.answers.iter().all(|record| record.ttl == 5), "{what}");
            match (answer.metadata.response_code, is_negative) {
                (ResponseCode::NoError, true) => "no data".to_owned(),
                (ResponseCode::NoError, false) => shown(&answer.answers),
                (code, _) => format!("{code:?}"),
            }
        }
    };
    assert_eq!(found, expected, "{what}");
}

#[test]
fn services_have_names() {
    use RecordType::{A, AAAA, CNAME, TXT};
    check("a service", "web.team.svc.cluster.local.", A, "A 10.96.0.20");
    check("capitals do not matter", "WEB.Team.svc.Cluster.LOCAL.", A, "A 10.96.0.20");
    check("there is no version 6 here", "web.team.svc.cluster.local.", AAAA, "no data");
    check("there is no such service", "wob.team.svc.cluster.local.", A, "NXDomain");
    check("the service is of another namespace", "web.default.svc.cluster.local.", A, "NXDomain");
    check("a name above others", "team.svc.cluster.local.", A, "no data");
    check("the cluster's domain", "cluster.local.", A, "no data");
    check("the version of the rules", "dns-version.cluster.local.", TXT, "TXT 1.1.0");
    check(
        "an alias of a name in the cluster",
        "other.team.svc.cluster.local.",
        A,
        "CNAME web.team.svc.cluster.local., A 10.96.0.20",
    );
    check("the alias itself", "outside.team.svc.cluster.local.", CNAME, "CNAME example.org.");
    check("an alias of a name elsewhere", "outside.team.svc.cluster.local.", A, "CNAME example.org. then example.org.");
    check("a name elsewhere", "example.org.", A, "elsewhere");
    check("a name that only looks like ours", "notcluster.local.", A, "elsewhere");
}

#[test]
fn an_alias_of_itself_is_followed_a_few_times_only() {
    let Reply::Answer(answer) = zone().reply(&question("circle.team.svc.cluster.local.", RecordType::A)) else {
        panic!("the name is ours");
    };
    assert_eq!(answer.metadata.response_code, ResponseCode::ServFail);
}

#[test]
fn endpoints_and_pods_have_names() {
    use RecordType::A;
    check("the ready endpoints", "db.team.svc.cluster.local.", A, "A 10.244.0.11, A 10.244.0.12");
    check("none is ready", "idle.team.svc.cluster.local.", A, "NXDomain");
    check("none is ready, but that does not matter", "early.team.svc.cluster.local.", A, "A 10.244.0.31");
    check("one with a host name", "db-0.db.team.svc.cluster.local.", A, "A 10.244.0.11");
    check("one without", "10-244-0-12.db.team.svc.cluster.local.", A, "A 10.244.0.12");
    check("one that is not ready", "db-2.db.team.svc.cluster.local.", A, "NXDomain");
    check("one with a host name of a service with an address", "web-0.web.team.svc.cluster.local.", A, "A 10.244.0.21");
    check("one without", "10-244-0-22.web.team.svc.cluster.local.", A, "NXDomain");
    check("a pod", "10-244-0-41.team.pod.cluster.local.", A, "A 10.244.0.41");
    check("no pod", "10-244-0-42.team.pod.cluster.local.", A, "NXDomain");
}

#[test]
fn ports_have_names() {
    use RecordType::{A, SRV};
    check("of a service", "_http._tcp.web.team.svc.cluster.local.", SRV, "SRV 0 100 80 web.team.svc.cluster.local.");
    check(
        "of endpoints",
        "_sql._tcp.db.team.svc.cluster.local.",
        SRV,
        "SRV 0 100 15432 10-244-0-12.db.team.svc.cluster.local., SRV 0 100 15432 db-0.db.team.svc.cluster.local.",
    );
    check("another protocol", "_http._udp.web.team.svc.cluster.local.", SRV, "NXDomain");
    check("a port has no address", "_http._tcp.web.team.svc.cluster.local.", A, "no data");
    check("a protocol alone", "_tcp.web.team.svc.cluster.local.", SRV, "no data");
}

#[test]
fn the_addresses_of_ports_come_along() {
    let Reply::Answer(answer) = zone().reply(&question("_sql._tcp.db.team.svc.cluster.local.", RecordType::SRV)) else {
        panic!("the name is ours");
    };
    assert_eq!(shown(&answer.additionals), "A 10.244.0.12, A 10.244.0.11");
}

#[test]
fn addresses_have_names() {
    use RecordType::PTR;
    check("a service's", "20.0.96.10.in-addr.arpa.", PTR, "PTR web.team.svc.cluster.local.");
    check("an endpoint's", "11.0.244.10.in-addr.arpa.", PTR, "PTR db-0.db.team.svc.cluster.local.");
    check("a pod's", "41.0.244.10.in-addr.arpa.", PTR, "PTR 10-244-0-41.team.pod.cluster.local.");
    check("nobody's, but of ours", "99.0.244.10.in-addr.arpa.", PTR, "NXDomain");
    check("a part of one", "0.244.10.in-addr.arpa.", PTR, "no data");
    check("another's", "8.8.8.8.in-addr.arpa.", PTR, "elsewhere");
}

#[test]
fn the_first_address_changes_from_question_to_question() {
    let first = |id| {
        let mut question = question("db.team.svc.cluster.local.", RecordType::A);
        question.metadata.id = id;
        let Reply::Answer(answer) = zone().reply(&question) else { panic!("the name is ours") };
        shown(&answer.answers[..1])
    };
    assert_eq!([first(6), first(7)], ["A 10.244.0.11", "A 10.244.0.12"]);
}

#[test]
fn odd_requests_are_refused_politely() {
    let code = |change: &dyn Fn(&mut Message)| {
        let mut request = question("web.team.svc.cluster.local.", RecordType::A);
        change(&mut request);
        let Reply::Answer(answer) = zone().reply(&request) else { panic!("an answer is expected") };
        answer.metadata.response_code
    };
    assert_eq!(code(&|request| request.queries.clear()), ResponseCode::FormErr);
    assert_eq!(code(&|request| request.metadata.op_code = OpCode::Update), ResponseCode::NotImp);
    let other_class = |request: &mut Message| _ = request.queries[0].set_query_class(hickory_proto::rr::DNSClass::CH);
    assert_eq!(code(&other_class), ResponseCode::Refused);
}

#[test]
fn an_answer_that_is_too_long_says_so() {
    let mut answer = question("db.team.svc.cluster.local.", RecordType::A);
    let address =
        |number: u32| Record::from_rdata(answer.queries[0].name().clone(), 5, RData::A(A(Ipv4Addr::from(number))));
    answer.answers = (0..100).map(address).collect();
    let cut = Message::from_vec(&encode(&answer, 512).unwrap()).unwrap();
    assert!(cut.metadata.truncation && cut.answers.is_empty());
    let whole = Message::from_vec(&encode(&answer, 4096).unwrap()).unwrap();
    assert!(!whole.metadata.truncation && whole.answers.len() == 100);
}

/// A name server elsewhere that answers everything with 192.0.2.7, and the server that asks it.
async fn server(directory: &tempfile::TempDir) -> NameServer {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = socket.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut buffer = [0; 512];
        loop {
            let (length, client) = socket.recv_from(&mut buffer).await.unwrap();
            let mut message = Message::from_vec(&buffer[..length]).unwrap().into_response();
            let name = message.queries[0].name().clone();
            message.answers.push(Record::from_rdata(name, 60, RData::A(A(Ipv4Addr::new(192, 0, 2, 7)))));
            socket.send_to(&message.to_vec().unwrap(), client).await.unwrap();
        }
    });
    let resolv_conf = directory.path().join("resolv.conf");
    // The first is ourselves and must not be asked.
    fs_err::write(&resolv_conf, "nameserver 10.96.0.10\nnameserver 127.0.0.1\n").unwrap();
    let upstream = Upstream { port, ..Upstream::new(resolv_conf, Ipv4Addr::new(10, 96, 0, 10)) };
    NameServer { zone: watch::channel(Arc::new(zone())).1, upstream }
}

async fn ask(server: &NameServer, request: &Message) -> Message {
    let answer = server.answer(&request.to_vec().unwrap(), Transport::Datagram).await.unwrap();
    Message::from_vec(&answer).unwrap()
}

#[tokio::test]
async fn names_elsewhere_are_asked_for_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    let server = server(&directory).await;
    let answer = ask(&server, &question("example.org.", RecordType::A)).await;
    assert_eq!(shown(&answer.answers), "A 192.0.2.7");
    let answer = ask(&server, &question("outside.team.svc.cluster.local.", RecordType::A)).await;
    assert_eq!(shown(&answer.answers), "CNAME example.org., A 192.0.2.7", "an alias is followed to its end");
    fs_err::write(directory.path().join("resolv.conf"), "").unwrap();
    let answer = ask(&server, &question("example.org.", RecordType::A)).await;
    assert_eq!(answer.metadata.response_code, ResponseCode::ServFail, "nobody is left to be asked");
}

#[tokio::test]
async fn bytes_that_are_no_request() {
    let directory = tempfile::tempdir().unwrap();
    let server = server(&directory).await;
    assert_eq!(server.answer(&[], Transport::Datagram).await, None);
    assert_eq!(server.answer(&[7; 11], Transport::Datagram).await, None);
    let mut half = question("web.team.svc.cluster.local.", RecordType::A).to_vec().unwrap();
    half.truncate(20);
    let answer = Message::from_vec(&server.answer(&half, Transport::Datagram).await.unwrap()).unwrap();
    assert_eq!(answer.metadata.response_code, ResponseCode::FormErr);
    let response = question("web.team.svc.cluster.local.", RecordType::A).into_response().to_vec().unwrap();
    assert_eq!(server.answer(&response, Transport::Datagram).await, None, "two servers must not talk for ever");
}

#[tokio::test]
async fn a_client_says_how_much_it_takes() {
    let directory = tempfile::tempdir().unwrap();
    let server = server(&directory).await;
    let mut request = question("web.team.svc.cluster.local.", RecordType::A);
    assert!(ask(&server, &request).await.edns.is_none());
    let mut edns = Edns::new();
    edns.set_max_payload(1232);
    request.set_edns(edns);
    assert_eq!(ask(&server, &request).await.edns.map(|edns| edns.max_payload()), Some(4096));
}

#[tokio::test]
async fn datagrams_are_served() {
    let directory = tempfile::tempdir().unwrap();
    let server = server(&directory).await;
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = socket.local_addr().unwrap();
    let task = tokio::spawn(server.serve_datagrams(socket));
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let request = question("web.team.svc.cluster.local.", RecordType::A);
    client.send_to(&request.to_vec().unwrap(), address).await.unwrap();
    let mut buffer = [0; 512];
    let length = client.recv(&mut buffer).await.unwrap();
    assert_eq!(shown(&Message::from_vec(&buffer[..length]).unwrap().answers), "A 10.96.0.20");
    task.abort();
}
